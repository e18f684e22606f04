import express, { type Express, type RequestHandler } from 'express';
import helmet from 'helmet';
import { isKnownHost } from '../../util/known-host.ts';
import { isFromWebPage } from '../../util/web-page.ts';
import type { Simulator } from '../simulator.ts';
import { AdminError, onAdminError, sendJson } from './admin-error.ts';
import { endpoints, runEndpoint } from './endpoints.ts';

export interface AdminOptions {
  /** Host names besides IP addresses and `localhost` that are accepted in the `Host` header. */
  readonly allowedHosts?: readonly string[];
}

const maxBodyBytes = 65_536;

/** The admin API of a simulator (docs/simulator.md). Does not listen. */
export function createAdminApp(simulator: Simulator, { allowedHosts = [] }: AdminOptions = {}): Express {
  const app = express().enable('case sensitive routing').enable('strict routing').disable('etag');
  app.use(helmet(), rejectUnknownHosts(allowedHosts), rejectWebPages);
  app.use(express.raw({ type: () => true, inflate: false, limit: maxBodyBytes }));
  for (const [path, methods] of Map.groupBy(endpoints, (endpoint) => endpoint.path)) {
    app.all(path.replaceAll(/\{(\w+)\}/g, ':$1'), (request, response) => {
      const endpoint = methods.find(({ method }) => method === request.method);
      if (endpoint === undefined) {
        const allowed = methods.map(({ method }) => method).join(', ');
        response.set('Allow', allowed);
        throw new AdminError(405, `The method of ${path} is ${allowed.replaceAll(',', ' or')}`);
      }
      const { status, body } = runEndpoint(endpoint, simulator, request);
      if (body === undefined) response.status(status).end();
      else sendJson(response, status, 'application/json', body);
    });
  }
  app.use(() => {
    throw new AdminError(404, 'Unknown path. GET / lists the endpoints');
  });
  app.use(onAdminError);
  return app;
}

/** Against DNS rebinding, as on the admin port of the proxy. */
function rejectUnknownHosts(allowedHosts: readonly string[]): RequestHandler {
  return (request, _response, next) => {
    if (isKnownHost(request.headers.host, allowedHosts)) return next();
    throw new AdminError(
      421,
      'Unknown Host. Use an IP address or localhost, or allow the name (--admin-allowed-host)',
    );
  };
}

const rejectWebPages: RequestHandler = (request, _response, next) => {
  if (!isFromWebPage(request.headers)) return next();
  throw new AdminError(403, 'Requests of web pages are rejected. Use a program, such as curl');
};
