import { createServer } from 'node:http';
import { type ListeningSimulator, type ListenOptions, listenOn, listenSimulator } from '../listen.ts';
import { type AdminOptions, createAdminApp } from './app.ts';

export interface AdminListenOptions extends AdminOptions {
  /** Default: 127.0.0.1. Every client that reaches it can change the keys that the simulator accepts. */
  readonly host?: string;
  /** 0 picks a free port. */
  readonly port: number;
}

export interface ListeningSimulatorWithAdmin extends ListeningSimulator {
  /** `http://host:port` of the admin API. */
  readonly adminUrl: string;
}

/**
 * Starts the simulator and its admin API, or neither.
 *
 * @throws Error of `listen`, such as `EADDRINUSE`; `port` of the error is the one that is in use
 */
export async function listenSimulatorWithAdmin(
  options: ListenOptions & { readonly admin: AdminListenOptions },
): Promise<ListeningSimulatorWithAdmin> {
  const gateway = await listenSimulator(options);
  try {
    const admin = await listenOn(
      createServer(createAdminApp(gateway.simulator, options.admin)),
      options.admin,
    );
    return {
      ...gateway,
      adminUrl: admin.url,
      close: async () => {
        await Promise.all([gateway.close(), admin.close()]);
      },
    };
  } catch (error) {
    await gateway.close();
    throw error;
  }
}
