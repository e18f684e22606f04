import { type AgentOptions, type ClientRequest, Agent as HttpAgent } from 'node:http';
import { Agent as TlsAgent, type AgentOptions as TlsAgentOptions } from 'node:https';
import type { Socket } from 'node:net';

declare module 'node:http' {
  interface Agent {
    /** Where Node hands a request to its agent: not documented, but what every other agent overrides. */
    addRequest(request: ClientRequest, options: object): void;
  }
}

/**
 * Makes sure that a response belongs to its request. On a kept-alive connection nothing but their order ties
 * the two together: bytes that the server sent while no request was outstanding would be read as the response
 * to the next one, which may be another caller's (response queue poisoning, CVE-2026-48931 and
 * CVE-2026-105481). Node looks only at what its event loop has read already; what still waits in the kernel
 * it misses.
 *
 * So a request that is given a used connection is not written before the event loop has read everything that
 * had arrived, and a connection on which anything came since it was released is destroyed instead.
 */
class ReuseGuard {
  /** Bytes received when the connection was last released; 0 before. A new connection is not in it. */
  readonly #received = new WeakMap<Socket, number>();

  constructor(agent: HttpAgent) {
    // Before the agent's own listener, which may assign the connection to a queued request at once.
    agent.prependListener('free', (socket: Socket) => {
      if (this.#received.has(socket)) this.#received.set(socket, bytesReceived(socket));
    });
  }

  /** @param enqueue lets the agent find a connection for the request: one of its own, or a new one */
  watch(request: ClientRequest, enqueue: () => void): void {
    const assign = request.onSocket.bind(request);
    // Node gives an error in place of a connection that failed.
    request.onSocket = (...given) => {
      const [socket] = given;
      const received = this.#received.get(socket);
      if (received === undefined) {
        if (typeof socket === 'object') this.#received.set(socket, 0);
        Reflect.apply(assign, undefined, given);
        return;
      }
      afterPoll(socket, () => {
        if (isUsable(socket) && bytesReceived(socket) === received) {
          request.reusedSocket = true;
          Reflect.apply(assign, undefined, given);
        } else {
          socket.destroy();
          request.reusedSocket = false;
          enqueue();
        }
      });
    };
    enqueue();
  }
}

/** An agent for `http:` that destroys a connection on which bytes arrived while no request was outstanding. */
export class KeepAliveAgent extends HttpAgent {
  readonly #guard = new ReuseGuard(this);

  constructor(options: AgentOptions) {
    super({ ...options, keepAlive: true });
  }

  override addRequest(request: ClientRequest, options: object): void {
    this.#guard.watch(request, () => super.addRequest(request, options));
  }
}

/** The same for `https:`. */
export class KeepAliveTlsAgent extends TlsAgent {
  readonly #guard = new ReuseGuard(this);

  constructor(options: TlsAgentOptions) {
    super({ ...options, keepAlive: true });
  }

  override addRequest(request: ClientRequest, options: object): void {
    this.#guard.watch(request, () => super.addRequest(request, options));
  }
}

/**
 * Calls back after one whole poll phase of the event loop. The first `setImmediate` may run right after the
 * callbacks of a poll that is older than this call, so only the second one comes after a newer poll.
 */
function afterPoll(socket: Socket, done: () => void): void {
  // Neither the agent nor a request listens meanwhile; an error destroys the socket, which is noticed below.
  const ignore = (): void => {};
  socket.on('error', ignore);
  setImmediate(() => {
    setImmediate(() => {
      socket.off('error', ignore);
      done();
    });
  });
}

/** From a socket that is paused nothing was read: what waits there would be the next response. */
function isUsable(socket: Socket): boolean {
  return !socket.destroyed && socket.writable && !socket.isPaused();
}

/**
 * Bytes that came over the network. `bytesRead` of a TLS socket counts what was decrypted and misses a part of
 * a record, so this looks at the TCP handle below it; Node has no public way there. Without one it is
 * `bytesRead` after all.
 */
function bytesReceived(socket: Socket): number {
  const tcp = property(property(socket, '_handle'), '_parent');
  const bytes = property(tcp, 'bytesRead');
  return typeof bytes === 'number' ? bytes : socket.bytesRead;
}

function property(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null ? Reflect.get(of, name) : undefined;
}
