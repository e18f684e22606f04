import type { Agent } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * Limits the age of an agent's connections, so that a change in DNS, or of what stands behind a load balancer, is
 * followed: an idle connection is closed when it is too old, one in use after its exchange.
 *
 * @param maxAge milliseconds from the begin of the connection
 */
export function limitConnectionAge<T extends Agent>(agent: T, maxAge: number): T {
  const tooOld = new WeakSet<Duplex>();
  const create = agent.createConnection.bind(agent);
  const keep = agent.keepSocketAlive.bind(agent);
  agent.createConnection = (options, done) => {
    const socket = create(options, done);
    if (socket) {
      const timer = setTimeout(() => {
        tooOld.add(socket);
        if (isIdle(agent, socket)) socket.destroy();
      }, maxAge).unref();
      socket.once('close', () => clearTimeout(timer));
    }
    return socket;
  };
  // Node closes a connection for which this is false (documented at `agent.keepSocketAlive`).
  agent.keepSocketAlive = (socket) => !tooOld.has(socket) && keep(socket);
  return agent;
}

function isIdle(agent: Agent, socket: Duplex): boolean {
  return Object.values(agent.freeSockets).some((idle) => idle?.some((one) => one === socket));
}
