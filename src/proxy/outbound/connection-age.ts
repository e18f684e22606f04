import type { Agent } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * Limits the age of an agent's connections, so that changes in DNS or behind a load balancer take effect. A connection
 * that is too old is closed when it is idle, or after its current request.
 *
 * @param maxAge milliseconds since the connection was opened
 */
export function limitConnectionAge<T extends Agent>(agent: T, maxAge: number): T {
  const tooOld = new WeakSet<Duplex>();
  const create = agent.createConnection.bind(agent);
  const keep = agent.keepSocketAlive.bind(agent);
  agent.createConnection = (options, callback) => {
    const socket = create(options, callback);
    if (socket) {
      const timer = setTimeout(() => {
        tooOld.add(socket);
        if (isIdle(agent, socket)) socket.destroy();
      }, maxAge).unref();
      socket.once('close', () => clearTimeout(timer));
    }
    return socket;
  };
  // Node closes a connection if this returns false (see `agent.keepSocketAlive` in Node's documentation).
  agent.keepSocketAlive = (socket) => !tooOld.has(socket) && keep(socket);
  return agent;
}

function isIdle(agent: Agent, socket: Duplex): boolean {
  return Object.values(agent.freeSockets).some((idle) => idle?.some((free) => free === socket));
}
