import type { ErrorRequestHandler, Express, RequestHandler, Response } from 'express';
import express from 'express';
import helmet from 'helmet';
import { pathText } from '../../config/problem.ts';
import { isFromWebPage, isKnownHost } from '../../util/web-page.ts';
import type { Simulator } from '../simulator.ts';
import { AdminError, endpoints } from './endpoints.ts';

const maxBodyBytes = 65_536;

/** The admin API of a simulator (docs/simulator.md), or of the demo that it is part of. Does not listen. */
export function createAdminApp(simulator: Simulator, hosts: readonly string[], demo?: object): Express {
  const app = express().enable('case sensitive routing').enable('strict routing').disable('etag');
  app.use(helmet(), rejectOthers(hosts));
  app.use(express.raw({ type: () => true, inflate: false, limit: maxBodyBytes }));
  for (const [path, methods] of Map.groupBy(endpoints, (endpoint) => endpoint.path)) {
    app.all(path.replaceAll(/\{(\w+)\}/g, ':$1'), (request, response) => {
      const endpoint = methods.find(({ method }) => method === request.method);
      if (endpoint === undefined) {
        const allowed = methods.map(({ method }) => method).join(', ');
        response.set('Allow', allowed);
        throw new AdminError(405, `The method of ${path} is ${allowed.replaceAll(',', ' or')}`);
      }
      const body = endpoint.run(simulator, request);
      if (body === undefined) response.status(204).end();
      else sendJson(response, endpoint.status ?? 200, 'application/json', body);
    });
  }
  if (demo) app.get('/demo', (_request, response) => sendJson(response, 200, 'application/json', demo));
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

/** Indented, because a person reads it in a terminal. */
function sendJson(response: Response, status: number, type: string, value: unknown): void {
  response.status(status).set('Cache-Control', 'no-store').type(type);
  response.send(`${JSON.stringify(value, undefined, 2)}\n`);
}

/** RFC 9457, with one problem for each field. The error handler of express would print the stack. */
const onAdminError: ErrorRequestHandler = (error: unknown, _request, response, next) => {
  if (response.headersSent) return next(error);
  const { status, message, findings } = error instanceof AdminError ? error : fromExpress(error);
  const problems = findings.map(({ path, message }) => ({ path: pathText(path), message }));
  return sendJson(response, status, 'application/problem+json', {
    status,
    detail: message,
    ...(problems.length === 0 ? {} : { problems }),
  });
};

/** Of the body parser and the router, such as 413; their messages may quote the request. */
function fromExpress(error: unknown): AdminError {
  const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
  if (typeof status !== 'number' || status < 400 || status > 499) {
    return new AdminError(500, 'Internal error of the simulator');
  }
  return new AdminError(
    status,
    'The request cannot be read. Send JSON of at most 64 KiB, without a content encoding',
  );
}
