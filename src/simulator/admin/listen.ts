import { createServer } from 'node:http';
import type { Express, RequestHandler } from 'express';
import express from 'express';
import helmet from 'helmet';
import { isFromWebPage, isKnownHost } from '../../util/http-server.ts';
import {
  type Address,
  type ListeningSimulator,
  type ListenOptions,
  listenOn,
  listenSimulator,
} from '../listen.ts';
import type { Simulator } from '../simulator.ts';
import { AdminError, onAdminError, sendJson } from './admin-error.ts';
import { endpoints, runEndpoint } from './endpoints.ts';

const maxBodyBytes = 65_536;

/** Every client that reaches the address can change the keys that the simulator accepts. */
interface AdminListenOptions extends Address {
  /** Host names besides IP addresses and `localhost` that are accepted in the `Host` header. */
  readonly allowedHosts?: readonly string[];
}

export type ListeningSimulatorWithAdmin = Required<ListeningSimulator>;

/**
 * Starts the simulator and its admin API, or neither.
 *
 * @throws Error of `listen`, such as `EADDRINUSE`; `port` of the error is the one that is in use
 */
export async function listenSimulatorWithAdmin({
  admin: { allowedHosts = [], ...address },
  ...options
}: ListenOptions & { readonly admin: AdminListenOptions }): Promise<ListeningSimulatorWithAdmin> {
  const gateway = await listenSimulator(options);
  try {
    const admin = await listenOn(createServer(createAdminApp(gateway.simulator, allowedHosts)), address);
    const close = async (): Promise<void> => {
      await Promise.all([gateway.close(), admin.close()]);
    };
    return { ...gateway, adminUrl: admin.url, close };
  } catch (error) {
    await gateway.close();
    throw error;
  }
}

/** The admin API of a simulator (docs/simulator.md). Does not listen. */
function createAdminApp(simulator: Simulator, allowedHosts: readonly string[]): Express {
  const app = express().enable('case sensitive routing').enable('strict routing').disable('etag');
  app.use(helmet(), rejectOthers(allowedHosts));
  app.use(express.raw({ type: () => true, inflate: false, limit: maxBodyBytes }));
  for (const [path, methods] of Map.groupBy(endpoints, (endpoint) => endpoint.path)) {
    app.all(path.replaceAll(/\{(\w+)\}/g, ':$1'), (request, response) => {
      const endpoint = methods.find(({ method }) => method === request.method);
      if (endpoint === undefined) {
        const allowed = methods.map(({ method }) => method).join(', ');
        response.set('Allow', allowed);
        throw new AdminError(405, `The method of ${path} is ${allowed.replaceAll(',', ' or')}`);
      }
      const body = runEndpoint(endpoint, simulator, request);
      if (body === undefined) response.status(204).end();
      else sendJson(response, endpoint.status ?? 200, 'application/json', body);
    });
  }
  app.use(() => {
    throw new AdminError(404, 'Unknown path. GET / lists the endpoints');
  });
  app.use(onAdminError);
  return app;
}

/** Web pages, and against DNS rebinding unknown hosts, as on the admin port of the proxy. */
function rejectOthers(allowedHosts: readonly string[]): RequestHandler {
  return ({ headers }, _response, next) => {
    if (!isKnownHost(headers.host, allowedHosts)) {
      throw new AdminError(
        421,
        'Unknown Host. Use an IP address or localhost, or allow the name (--admin-allowed-host)',
      );
    }
    if (!isFromWebPage(headers)) return next();
    throw new AdminError(403, 'Requests of web pages are rejected. Use a program, such as curl');
  };
}
