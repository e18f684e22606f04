import { setImmediate as nextTurn } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import type { Express, NextFunction, Request, RequestHandler, Response } from 'express';
import express from 'express';
import helmet from 'helmet';
import { isKnownHost } from '../util/web-page.ts';
import type { Readiness } from './readiness.ts';
import { createPageSharing, type Page, type SharingOptions } from './shared-page.ts';
import { pagePolicy, renderStatusPage } from './status/page.ts';
import type { Status } from './status/schema.ts';

export interface AdminAppOptions extends SharingOptions {
  readonly page: (openMetrics: boolean) => Promise<Page>;
  readonly readiness: () => Readiness;
  readonly status: () => Promise<Status>;
  /** Whether a request with this `Authorization` header may see the status; `off`: no request may. */
  readonly statusAccess: (authorization: string | undefined) => 'granted' | 'denied' | 'off';
  /** Whether pages, not probes, require a verified client certificate. Default: no. */
  readonly certificateRequired?: boolean;
  /** Host names besides IP addresses and `localhost` under which pages, not probes, are served. */
  readonly allowedHosts?: readonly string[];
}

/** The app of the admin port: status, metrics and probes, GET and HEAD only. Does not listen. */
export function createAdminApp(options: AdminAppOptions): Express {
  const app = express();
  const share = createPageSharing(options);
  app.enable('strict routing');
  app.enable('case sensitive routing');
  app.disable('etag');
  app.use(helmet(), allowGetAndHead);
  app.get(['/', '/status.json', '/metrics'], guardPages(options));
  app.get('/metrics', metrics(options, share));
  app.get(['/', '/status.json'], guardStatus(options));
  app.get('/', statusPage(options, share));
  app.get('/status.json', statusJson(options, share));
  app.get('/healthz', (_request, response) => plain(response, 200, 'ok'));
  app.get('/readyz', (_request, response) => {
    const state = options.readiness();
    uncached(response, state.ready ? 200 : 503)
      .type('json')
      .send(`${JSON.stringify(state)}\n`);
  });
  app.use((_request: Request, response: Response) => plain(response, 404, 'not found'));
  app.use(errorHandler);
  return app;
}

type SharePage = ReturnType<typeof createPageSharing>;
/** Express hands a rejection to {@link errorHandler}. */
type SendPage = (request: Request, response: Response) => Promise<void>;

function statusPage({ status }: AdminAppOptions, share: SharePage): SendPage {
  const shared = (refresh: boolean) =>
    share(async () => {
      const now = await status();
      await nextTurn();
      return { contentType: 'text/html; charset=utf-8', body: renderStatusPage(now, { refresh }) };
    });
  const [refreshing, paused] = [shared(true), shared(false)];
  return ({ query }, response) => {
    // Replaces the general policy of helmet.
    uncached(response).set('Content-Security-Policy', pagePolicy);
    return query['refresh'] === 'off' ? paused(response) : refreshing(response);
  };
}

function statusJson({ status }: AdminAppOptions, share: SharePage): SendPage {
  const contentType = 'application/json; charset=utf-8';
  const send = share(async () => ({ contentType, body: `${JSON.stringify(await status())}\n` }));
  return (_request, response) => send(uncached(response));
}

function metrics({ page }: AdminAppOptions, share: SharePage): SendPage {
  const [text, openMetrics] = [share(() => page(false)), share(() => page(true))];
  return (request, response) => {
    // Who only sends wildcards gets the text format, which every client can read.
    const isNamed = /\bapplication\/openmetrics-text\b/i.test(request.get('Accept') ?? '');
    return (isNamed ? openMetrics : text)(response.vary('Accept'));
  };
}

const statusOff =
  'The status is off: admin.host is not a loopback address, and admin.tokenSha256 is not set. Set it to the hash that "countersign callers token" prints beside a new token.';
const statusDenied =
  'The status needs the token whose hash is admin.tokenSha256. Send "Authorization: Bearer <token>", or in a browser any user name with the token as the password.';

/** No limit to guesses, since it would also keep operators out; a token has 256 random bits. */
function guardStatus({ statusAccess }: AdminAppOptions): RequestHandler {
  return (request, response, next) => {
    const access = statusAccess(request.headers.authorization);
    if (access === 'granted') return next();
    if (access === 'off') return plain(response, 404, statusOff);
    response.set('WWW-Authenticate', challengeFor(request));
    plain(response, 401, statusDenied);
  };
}

/**
 * A browser prompts for the password of `Basic` also where the script of the page is updating it: again with each update,
 * and until then the request hangs. Only a browser that navigates names `text/html`.
 */
function challengeFor({ headers: { accept = '' } }: Request): string {
  return accept.includes('text/html')
    ? 'Basic realm="Countersign status", charset="UTF-8"'
    : 'Bearer realm="Countersign status"';
}

/** Probes are exempt: Kubernetes has no certificate for them, and another site may read them. */
function guardPages({ allowedHosts = [], certificateRequired = false }: AdminAppOptions): RequestHandler {
  return ({ headers, socket }, response, next) => {
    if (!isKnownHost(headers.host, allowedHosts))
      plain(response, 421, 'Unknown Host. Use an IP address, or add the name to admin.allowedHosts.');
    else if (certificateRequired && !(socket instanceof TLSSocket && socket.authorized))
      plain(response, 403, 'This page needs a client certificate of the CA in admin.tls.clientCaFile.');
    else next();
  };
}

function allowGetAndHead(request: Request, response: Response, next: NextFunction): void {
  if (request.method === 'GET' || request.method === 'HEAD') next();
  else plain(response.set('Allow', 'GET, HEAD'), 405, 'method not allowed');
}

/** Express's own handler would print the stack. Four parameters make it an error handler. */
function errorHandler(_error: unknown, _request: Request, response: Response, _next: NextFunction): void {
  plain(response, 500, 'failed to render the page');
}

function plain(response: Response, status: number, text: string): void {
  uncached(response, status).type('text/plain').send(`${text}\n`);
}

function uncached(response: Response, status = 200): Response {
  return response.status(status).set('Cache-Control', 'no-store');
}
