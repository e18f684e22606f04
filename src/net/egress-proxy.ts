import { on, once } from 'node:events';
import type { Agent } from 'node:https';
import { connect, isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type SecureContextOptions, connect as tlsConnect } from 'node:tls';
import { urlToHttpOptions } from 'node:url';
import { callbackify } from 'node:util';
import { errorCode } from '../errors.ts';
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

/** Bytes of a response of the proxy; as Node's own limit. */
const maxHead = 16_384;
const endOfHead = '\r\n\r\n';
/** Responses before the final one (RFC 9110 section 15.2); 101 is a final one. */
const interimHeads = /^(?:HTTP\/1\.\d 1(?!01)\d\d\b[^]*?\r\n\r\n)+/;

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
  const create = agent.createConnection.bind(agent);
  agent.createConnection = (options, callback) => {
    const connectThrough = async (): Promise<Duplex> => {
      const { host, port } = options;
      const signal = AbortSignal.timeout(timeout);
      const authority = `${host?.includes(':') === true ? `[${host}]` : host}:${port}`;
      const socket = await openTunnel(proxy, tls, authority, signal);
      return secured(create(Object.assign({}, options, { socket })), signal);
    };
    callbackify(connectThrough)(callback ?? (() => {}));
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

/** @param authority host and port of the server. @returns a connection on which no byte of the server was received */
async function openTunnel(
  proxy: EgressProxySettings,
  tls: SecureContextOptions,
  authority: string,
  signal: AbortSignal,
): Promise<Socket> {
  const head = `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${await credentials(proxy)}\r\n`;
  const socket = connectTo(proxy.url, tls);
  try {
    socket.write(head);
    await readSuccess(socket, signal);
    return socket;
  } catch (error) {
    socket.destroy();
    if (error instanceof ConnectionError) throw error;
    throw signal.aborted ? new ConnectionError('proxy-timeout', 'ETIMEDOUT') : failureOf(error);
  }
}

function connectTo(url: string, tls: SecureContextOptions): Socket {
  const { protocol, hostname, port } = urlToHttpOptions(new URL(url));
  const host = String(hostname);
  const isSecure = protocol === 'https:';
  const address = { host, port: Number(port ?? (isSecure ? 443 : 80)), noDelay: true };
  const socket = isSecure
    ? tlsConnect({ ...tls, ...address, servername: isIP(host) === 0 ? host : '' })
    : connect(address);
  // Who waits for the socket sees its errors, and so does TLS above it.
  return socket.on('error', () => {});
}

/** @throws ConnectionError unless the proxy makes a tunnel. Bytes behind its response would be read as the server's. */
async function readSuccess(socket: Socket, signal: AbortSignal): Promise<void> {
  let received = '';
  for await (const [chunk] of on(socket, 'data', { signal, close: ['end', 'close'] })) {
    received = (received + String(chunk)).replace(interimHeads, '');
    const end = received.indexOf(endOfHead);
    if (end === -1 && received.length <= maxHead && 'HTTP/1.'.startsWith(received.slice(0, 7))) continue;
    const [, status] = /^HTTP\/1\.\d (\d{3})\b/.exec(received) ?? [];
    if (end === -1 || status === undefined) throw new ConnectionError('proxy-invalid', 'no HTTP response');
    if (!status.startsWith('2')) throw new ConnectionError(failureWith(Number(status)), `status ${status}`);
    if (end + endOfHead.length < received.length)
      throw new ConnectionError('proxy-invalid', 'bytes behind the response');
    return;
  }
  throw new ConnectionError('proxy-unreachable', 'ECONNRESET');
}

/** The header `Proxy-Authorization` (RFC 7617), or nothing. */
async function credentials({ username, password, passwordFile = '' }: EgressProxySettings): Promise<string> {
  if (username === undefined) return '';
  const text = password === undefined ? await readText(passwordFile) : reveal(password);
  return `Proxy-Authorization: Basic ${Buffer.from(`${username}:${text}`).toString('base64')}\r\n`;
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

function failureWith(status: number): EgressProxyFailure {
  // tinyproxy responds with 401 to a wrong password.
  if (status === 407 || status === 401) return 'proxy-credentials';
  if (status < 300 || status > 599) return 'proxy-invalid';
  return status < 500 ? 'proxy-denied' : 'proxy-failed';
}

function failureOf(error: unknown): ConnectionError {
  const failures: Partial<Record<NetworkFailure, EgressProxyFailure>> = {
    tls: 'proxy-tls',
    timeout: 'proxy-timeout',
  };
  return new ConnectionError(failures[networkFailureOf(error)] ?? 'proxy-unreachable', codeIn(error));
}

function codeIn(error: unknown): string {
  return errorCode(error) ?? 'no code';
}
