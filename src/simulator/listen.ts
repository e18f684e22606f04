import { createServer, type RequestListener } from 'node:http';
import { closeServer, listen } from '../net/http.ts';
import { createAdminApp } from './admin/app.ts';
import { createSimulator, type SimulatorOptions } from './simulator.ts';

interface Address {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** 0 picks a free port. */
  readonly port: number;
}

/** Every client that reaches the address can change the keys that the simulator accepts. */
interface AdminOptions extends Address {
  /** Host names besides IP addresses and `localhost` that are accepted in the `Host` header. */
  readonly allowedHosts?: readonly string[];
  /** The response to `GET /demo`: the demo that the simulator is part of. May get fields later. */
  readonly demo?: object;
}

/** Of a simulator and its port. */
export type ListenOptions = SimulatorOptions & Address;

export type ListeningSimulator = Awaited<ReturnType<typeof listenSimulator>>;
export type ListeningSimulatorWithAdmin = Awaited<ReturnType<typeof listenSimulatorWithAdmin>>;

/** @throws Error of `listen`, such as `EADDRINUSE`. */
export async function listenSimulator(options: ListenOptions) {
  const simulator = createSimulator(options);
  const listening = await listenOn(simulator.app, options);
  const close = (): Promise<void> => {
    simulator.callbacks.clear();
    return listening.close();
  };
  return { simulator, ...listening, close };
}

/**
 * Starts the simulator and its admin API, or neither.
 *
 * @throws Error of `listen`, such as `EADDRINUSE`; `port` of the error is the one that is in use
 */
export async function listenSimulatorWithAdmin({
  admin: { allowedHosts = [], demo, ...address },
  ...options
}: ListenOptions & { readonly admin: AdminOptions }) {
  const gateway = await listenSimulator(options);
  try {
    const admin = await listenOn(createAdminApp(gateway.simulator, allowedHosts, demo), address);
    const close = async (): Promise<void> => {
      await Promise.all([gateway.close(), admin.close()]);
    };
    return { ...gateway, adminUrl: admin.url, close };
  } catch (error) {
    await gateway.close();
    throw error;
  }
}

async function listenOn(app: RequestListener, { host = '127.0.0.1', port }: Address) {
  const server = createServer(app);
  return {
    /** `http://host:port`; of the gateway, a base URL for the proxy's configuration. */
    url: await listen(server, { host, port }),
    /** Stops listening and closes every connection, even during a response. */
    close: () => closeServer(server),
  };
}
