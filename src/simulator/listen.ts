import { createServer } from 'node:http';
import { createSimulator, type Simulator, type SimulatorOptions } from './simulator.ts';

export interface ListenOptions extends SimulatorOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** 0 picks a free port. */
  readonly port: number;
}

export interface ListeningSimulator {
  /** `http://host:port`, a base URL for the proxy's configuration. */
  readonly url: string;
  readonly simulator: Simulator;
  /** Stops listening and closes every connection, even during a response. */
  readonly close: () => Promise<void>;
}

/** @throws Error of `listen`, such as `EADDRINUSE`. */
export async function listenSimulator(options: ListenOptions): Promise<ListeningSimulator> {
  const { host = '127.0.0.1', port } = options;
  const simulator = createSimulator(options);
  const server = createServer(simulator.app);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => resolve());
  });
  const address = server.address();
  const listening = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}`,
    simulator,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
