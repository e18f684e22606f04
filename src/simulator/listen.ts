import { createServer, type Server } from 'node:http';
import { createSimulator, type Simulator, type SimulatorOptions } from './simulator.ts';

interface Address {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** 0 picks a free port. */
  readonly port: number;
}

export interface ListenOptions extends SimulatorOptions, Address {}

interface Listening {
  readonly url: string;
  /** Stops listening and closes every connection, even during a response. */
  readonly close: () => Promise<void>;
}

export interface ListeningSimulator extends Listening {
  /** `http://host:port`, a base URL for the proxy's configuration. */
  readonly url: string;
  readonly simulator: Simulator;
}

/** @throws Error of `listen`, such as `EADDRINUSE`. */
export async function listenSimulator(options: ListenOptions): Promise<ListeningSimulator> {
  const simulator = createSimulator(options);
  return { simulator, ...(await listenOn(createServer(simulator.app), options)) };
}

/** @throws Error of `listen`, such as `EADDRINUSE`. */
export async function listenOn(server: Server, { host = '127.0.0.1', port }: Address): Promise<Listening> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => resolve());
  });
  const address = server.address();
  const listening = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
