import { createServer, type Server } from 'node:http';
import { closeServer, listen } from '../util/http-server.ts';
import { createSimulator, type Simulator, type SimulatorOptions } from './simulator.ts';

export interface Address {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** 0 picks a free port. */
  readonly port: number;
}

export interface ListenOptions extends SimulatorOptions, Address {}

interface Listening {
  /** `http://host:port`; of the gateway, a base URL for the proxy's configuration. */
  readonly url: string;
  /** Stops listening and closes every connection, even during a response. */
  readonly close: () => Promise<void>;
}

export interface ListeningSimulator extends Listening {
  readonly simulator: Simulator;
  /** `http://host:port` of the admin API, if there is one. */
  readonly adminUrl?: string;
}

/** @throws Error of `listen`, such as `EADDRINUSE`. */
export async function listenSimulator(options: ListenOptions): Promise<ListeningSimulator> {
  const simulator = createSimulator(options);
  return { simulator, ...(await listenOn(createServer(simulator.app), options)) };
}

/** @throws Error of `listen`, such as `EADDRINUSE`. */
export async function listenOn(server: Server, { host = '127.0.0.1', port }: Address): Promise<Listening> {
  return { url: await listen(server, { host, port }), close: () => closeServer(server) };
}
