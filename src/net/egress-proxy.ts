import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as plainRequest } from 'node:http';
import { type Agent, type RequestOptions, request as tlsRequest } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import { callbackify } from 'node:util';
import { errorCode, isParserError } from '../errors.ts';
import { readConsistent } from '../read-files.ts';
import { reveal, type Secret } from '../secret.ts';
import { secretText } from '../util/secret-text.ts';
import {
  ConnectionError,
  type EgressProxyFailure,
  type NetworkFailure,
  networkFailureOf,
} from './network-failure.ts';

/** `egressProxy` of the configuration, without the CA file. */
export interface EgressProxySettings {
  /** `http:` or `https:`, without a path. */
  readonly url: string;
  readonly username?: string | undefined;
  readonly password?: Secret | undefined;
  readonly passwordFile?: string | undefined;
}

const endOfHead = '\r\n\r\n';
/** Of an interim response; as Node allows for others. */
const maxHeadBytes = 16_384;

/** Milliseconds for which a password is used before its file is read again. */
const passwordMaxAge = 1_000;

/**
 * Makes an agent open each of its connections through a forward proxy (CONNECT, RFC 9110 section 9.3.6). The proxy sees
 * the name of the server and encrypted bytes: TLS with the server is verified through the tunnel. Until that is
 * established, a connection is given to no request, so a failure before is always `not-sent`. They fail with a
 * {@link ConnectionError}, or with an error of TLS with the server.
 *
 * @param tls for an `https:` proxy
 * @param timeout milliseconds until a tunnel and TLS with the server are established
 */
export function tunnelThrough(
  proxy: EgressProxySettings,
  tls: SecureContextOptions,
  timeout: number,
  agent: Agent,
): void {
  const authorization = authorizationFor(proxy);
  const create = agent.createConnection.bind(agent);
  agent.createConnection = (options, callback) => {
    const connect = async (): Promise<Duplex> => {
      const { host, port } = options;
      const signal = AbortSignal.timeout(timeout);
      const authority = `${host?.includes(':') === true ? `[${host}]` : host}:${port}`;
      const request = requestTunnel(proxy.url, authority, { ...tls, signal }, await authorization());
      const socket = await tunnelOf(request, signal);
      return secured(create(Object.assign({}, options, { socket })), signal);
    };
    callbackify(connect)(callback ?? (() => {}));
    return undefined;
  };
}

/** Waits until TLS with the server is established. */
async function secured(socket: Duplex | null | undefined, signal: AbortSignal): Promise<Duplex> {
  if (!socket) throw new TypeError('the agent made no connection');
  try {
    await once(socket, 'secureConnect', { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    if (signal.aborted) throw new ConnectionError('timeout', 'ETIMEDOUT');
    if (networkFailureOf(error) !== 'other') throw error;
    // As without a tunnel: the server ended the connection during the handshake.
    throw new ConnectionError('tls', codeIn(error));
  }
}

/** @param authority host and port of the server */
function requestTunnel(
  url: string,
  authority: string,
  options: RequestOptions,
  authorization: string | undefined,
) {
  return (url.startsWith('https:') ? tlsRequest : plainRequest)(url, {
    ...options,
    method: 'CONNECT',
    path: authority,
    agent: false,
    headers: {
      Host: authority,
      Connection: 'keep-alive',
      ...(authorization === undefined ? {} : { 'Proxy-Authorization': authorization }),
    },
  });
}

/** The tunnel, on which no byte was received yet. */
function tunnelOf(request: ClientRequest, signal: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  request.once('connect', ({ statusCode: status = 0 }: IncomingMessage, socket: Socket, rest: Buffer) => {
    // Until TLS above it reports its errors.
    socket.on('error', () => {});
    const settle = (problem: ConnectionError | undefined): void => {
      socket.off('close', stop);
      signal.removeEventListener('abort', stop);
      if (problem === undefined) return resolve(socket);
      socket.destroy();
      reject(problem);
    };
    const stop = (): void =>
      settle(signal.aborted ? timedOut() : new ConnectionError('proxy-unreachable', 'ECONNRESET'));
    socket.once('close', stop);
    signal.addEventListener('abort', stop);
    readFinal({ status, rest }, socket, (response) => settle(problemIn(response)));
  });
  request.on('error', (error) => reject(signal.aborted ? timedOut() : failureOf(error)));
  request.end();
  return promise;
}

interface ProxyResponse {
  readonly status: number;
  /** Bytes behind its head. */
  readonly rest: Buffer;
}

/** Skips interim responses (RFC 9110 section 15.2): Node takes the first head that follows CONNECT for the last one. */
function readFinal(
  { status, rest }: ProxyResponse,
  socket: Socket,
  done: (response: ProxyResponse) => void,
): void {
  if (status < 100 || status > 199 || status === 101) return done({ status, rest });
  const end = rest.indexOf(endOfHead);
  if (end === -1 && rest.length < maxHeadBytes) {
    socket.once('data', (chunk: Buffer) => {
      socket.pause();
      readFinal({ status, rest: Buffer.concat([rest, chunk]) }, socket, done);
    });
    return void socket.resume();
  }
  const [, next = '0'] = /^HTTP\/1\.[01] (\d{3})[ \r]/.exec(rest.toString('latin1', 0, end + 2)) ?? [];
  readFinal({ status: Number(next), rest: rest.subarray(end + endOfHead.length) }, socket, done);
}

/** The value of `Proxy-Authorization` (RFC 7617). */
function authorizationFor({ username, password, passwordFile = '' }: EgressProxySettings) {
  let read: { readonly at: number; readonly text: Promise<string> } | undefined;
  const passwordInFile = (): Promise<string> => {
    const now = performance.now();
    if (read === undefined || now - read.at > passwordMaxAge)
      read = { at: now, text: readText(passwordFile) };
    return read.text;
  };
  return async (): Promise<string | undefined> => {
    if (username === undefined) return undefined;
    const text = password === undefined ? await passwordInFile() : reveal(password);
    return `Basic ${Buffer.from(`${username}:${text}`).toString('base64')}`;
  };
}

/** @throws ConnectionError, which names no file: its text may reach a client */
async function readText(file: string): Promise<string> {
  const { contents } = await readConsistent([file]).catch((error: unknown) => {
    throw new ConnectionError('proxy-credentials', `passwordFile cannot be read (${codeIn(error)})`);
  });
  if (contents[0] === undefined)
    throw new ConnectionError('proxy-credentials', 'passwordFile does not exist');
  const read = secretText(contents[0], 'passphrase');
  if ('fault' in read) throw new ConnectionError('proxy-credentials', `passwordFile ${read.fault}`);
  return read.text;
}

/** Why there is no tunnel. Bytes behind the response would be read as the server's. */
function problemIn({ status, rest }: ProxyResponse): ConnectionError | undefined {
  const isSuccess = status >= 200 && status < 300;
  if (!isSuccess) return new ConnectionError(failureWith(status), `status ${status}`);
  return rest.length === 0 ? undefined : new ConnectionError('proxy-invalid', 'bytes behind the response');
}

function failureWith(status: number): EgressProxyFailure {
  // tinyproxy responds with 401 to a wrong password.
  if (status === 407 || status === 401) return 'proxy-credentials';
  if (status < 300 || status > 599) return 'proxy-invalid';
  return status < 500 ? 'proxy-denied' : 'proxy-failed';
}

function timedOut(): ConnectionError {
  return new ConnectionError('proxy-timeout', 'ETIMEDOUT');
}

function failureOf(error: Error): ConnectionError {
  const failures: Partial<Record<NetworkFailure, EgressProxyFailure>> = {
    tls: 'proxy-tls',
    timeout: 'proxy-timeout',
  };
  const failure = failures[networkFailureOf(error)] ?? 'proxy-unreachable';
  return new ConnectionError(isParserError(error) ? 'proxy-invalid' : failure, codeIn(error));
}

function codeIn(error: unknown): string {
  return errorCode(error) ?? 'no code';
}
