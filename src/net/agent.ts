import { type Agent, type AgentOptions, ClientRequest, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent, type AgentOptions as HttpsAgentOptions } from 'node:https';
import type { Socket } from 'node:net';
import { type ConnectionOptions, type SecureContextOptions, TLSSocket } from 'node:tls';
import { readText } from '../read-files.ts';
import { type EgressProxySettings, tunnelThrough } from './egress-proxy.ts';
import { observeTls, type TlsObserver } from './tls-observer.ts';
import { type MinVersion, tlsPolicy } from './tls-policy.ts';

/** The options with which a request was made. */
const requested: unique symbol = Symbol('requested');

declare module 'node:http' {
  interface ClientRequest {
    [requested]: object;
  }
  interface Agent {
    /** Assigns a request to a connection. Undocumented, but the method that other agents override too. */
    addRequest(request: ClientRequest, options: object): void;
  }
}

/** PEM texts; the public CAs where `ca` is absent. */
export interface AgentTls extends Pick<HttpsAgentOptions, 'ca' | 'cert' | 'key'> {
  /** As `ca`, for an `https:` egress proxy. */
  readonly proxyCa?: string | undefined;
  /** Also for an `https:` egress proxy. */
  readonly minVersion?: MinVersion | undefined;
  readonly observer?: TlsObserver | undefined;
  /** The certificate of the server: no other is accepted, and this one whatever names it has. */
  readonly pinned?: string | undefined;
  /** The name that the certificate must have. Default: the host of the URL. */
  readonly serverName?: string | undefined;
}

/**
 * An agent for `http:` or `https:`, as in the URL. With `keepAlive`, it never uses a connection again that received
 * bytes while no request was pending.
 *
 * @param egressProxy opens the connections, within its timeout in milliseconds; for `https:` only
 */
export function createAgent(
  url: string,
  { ca, cert, key, proxyCa, minVersion = 'TLSv1.2', observer, pinned, serverName }: AgentTls,
  options: AgentOptions,
  egressProxy?: EgressProxySettings,
  tunnelTimeout = 2_500,
): HttpAgent {
  // Nothing can disable the verification.
  const tls = { ...tlsPolicy, minVersion, rejectUnauthorized: true };
  const agent = url.startsWith('http:')
    ? new HttpAgent(options)
    : new HttpsAgent({
        ...options,
        ca,
        cert,
        key,
        ...tls,
        ...(pinned === undefined ? {} : pinnedTo(pinned)),
        ...(serverName === undefined ? {} : { servername: serverName }),
      });
  if (observer !== undefined) observeConnections(agent, observer);
  if (egressProxy !== undefined) {
    // The proxy could read the requests.
    if (!(agent instanceof HttpsAgent)) throw new TypeError('an egress proxy requires an https: address');
    const proxyTls = proxyCa === undefined ? tls : { ...tls, ca: proxyCa };
    tunnelThrough(egressProxy, proxyTls, tunnelTimeout, agent);
  }
  return options.keepAlive ? guardReuse(agent) : agent;
}

/** The certificate alone is trusted, so that its name adds nothing. */
function pinnedTo(
  certificate: string,
): SecureContextOptions & Pick<ConnectionOptions, 'checkServerIdentity'> {
  return { ca: certificate, allowPartialTrustChain: true, checkServerIdentity: () => undefined };
}

function observeConnections(agent: HttpAgent, observer: TlsObserver): void {
  const create = agent.createConnection.bind(agent);
  agent.createConnection = (options, callback) => {
    const socket = create(options, callback);
    if (socket instanceof TLSSocket) observeTls(socket, observer);
    return socket;
  };
}

/** How a server of the configuration is reached. */
export interface ServerAccess extends Pick<AgentTls, 'minVersion' | 'observer'> {
  readonly caFile?: string | undefined;
  readonly egressProxy?: (EgressProxySettings & { readonly caFile?: string | undefined }) | undefined;
}

/**
 * An agent for single requests to a server. The files are read now, since certificates in them are replaced.
 *
 * @throws Error with a message for operators
 */
export async function agentFor(
  url: URL,
  { caFile, egressProxy, ...access }: ServerAccess,
): Promise<HttpAgent> {
  const ca = caFile === undefined ? {} : { ca: await readText(caFile) };
  const proxyCa = egressProxy?.caFile === undefined ? undefined : await readText(egressProxy.caFile);
  return createAgent(url.href, { ...access, ...ca, proxyCa }, { keepAlive: false }, egressProxy);
}

/**
 * Closes idle connections now, and the others after their current request. `destroy` would also end requests in
 * flight.
 */
export function drainAgent(agent: HttpAgent): void {
  agent.maxFreeSockets = 0;
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}

/**
 * Ensures that a response belongs to its request. On a keep-alive connection only the order associates the two: bytes
 * that the server sent while no request was pending would be read as the response to the next request, which may be
 * another client's (response queue poisoning, CVE-2026-48931 and CVE-2026-105481). Node checks only what its event
 * loop has already read, not what is still in the kernel's buffer.
 *
 * So a request on a reused connection is not written until the event loop has read everything that has arrived. If
 * anything has arrived since the connection was released, it is destroyed instead.
 */
export function guardReuse(agent: Agent): Agent {
  /** New connections are absent. */
  const connections = new WeakMap<Socket, Received>();
  // Before the agent's own listener, which may immediately assign the connection to a queued request.
  agent.prependListener('free', (socket: Socket) => {
    const received = connections.get(socket);
    if (received === undefined) return;
    received.counter ??= byteCounter(socket);
    received.before = received.counter.bytesRead;
  });
  const addRequest = agent.addRequest.bind(agent);
  const onSocket = guardedOnSocket(connections, (request) => addRequest(request, request[requested]));
  agent.addRequest = (request, options) => {
    Object.assign(request, { onSocket, [requested]: options });
    addRequest(request, options);
  };
  return agent;
}

interface Received {
  /** Bytes up to the last release of the connection; 0 before. */
  before: number;
  /** Known since the first release. */
  counter?: ByteCounter;
}

interface ByteCounter {
  readonly bytesRead: number;
}

/**
 * Replaces `ClientRequest.onSocket`. One function for all requests of an agent: with a closure as a property of each,
 * 1 MB instead of 0.5 MB outlived each of V8's collections of young objects, which then took 7 % of the CPU.
 *
 * @param enqueue makes the agent assign another pooled or a new connection to the request
 */
function guardedOnSocket(connections: WeakMap<Socket, Received>, enqueue: (request: ClientRequest) => void) {
  // If the connection failed, Node passes an error instead of a socket.
  return function onSocket(this: ClientRequest, ...values: Parameters<ClientRequest['onSocket']>): void {
    const [socket] = values;
    const assign = (): void => ClientRequest.prototype.onSocket.apply(this, values);
    const received = connections.get(socket);
    if (received === undefined) {
      if (typeof socket === 'object') connections.set(socket, { before: 0 });
      assign();
      return;
    }
    afterPoll(socket, () => {
      if (isUsable(socket) && received.counter?.bytesRead === received.before) {
        this.reusedSocket = true;
        assign();
      } else {
        socket.destroy();
        this.reusedSocket = false;
        enqueue(this);
      }
    });
  };
}

/**
 * Calls back after one complete poll phase of the event loop. The first `setImmediate` may belong to a poll phase that
 * began before this call, so only the second one runs after a newer one.
 */
function afterPoll(socket: Socket, done: () => void): void {
  // Without this listener an error would be uncaught. It also destroys the socket, which the caller checks.
  socket.on('error', ignoreError);
  setImmediate(() => {
    setImmediate(() => {
      socket.off('error', ignoreError);
      done();
    });
  });
}

function ignoreError(): void {}

/** A paused socket may have unread bytes, which would become the next response. */
function isUsable(socket: Socket): boolean {
  return !socket.destroyed && socket.writable && !socket.isPaused();
}

/**
 * Counts bytes received from the network. `bytesRead` of a TLS socket counts decrypted bytes and misses an incomplete
 * record, so this is the TCP handle below all TLS, for which Node has no public API. Falls back to the socket.
 */
function byteCounter(socket: Socket): ByteCounter {
  let tcp = property(socket, '_handle');
  for (let below = tcp; below !== undefined; below = property(below, '_parent')) tcp = below;
  return countsBytes(tcp) ? tcp : socket;
}

function countsBytes(value: unknown): value is ByteCounter {
  return typeof property(value, 'bytesRead') === 'number';
}

function property(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null ? Reflect.get(of, name) : undefined;
}
