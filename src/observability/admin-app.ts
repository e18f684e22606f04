import express, {
  type Express,
  type NextFunction,
  type Request,
  type RequestHandler,
  type Response,
} from 'express';
import helmet from 'helmet';
import { isKnownHost } from '../util/known-host.ts';
import { prefersOpenMetrics } from './accept.ts';
import type { Readiness } from './readiness.ts';

export interface MetricsPage {
  readonly contentType: string;
  readonly body: string;
}

export interface AdminAppOptions {
  readonly page: (openMetrics: boolean) => Promise<MetricsPage>;
  readonly readiness: () => Readiness;
  /** Host names besides IP addresses and `localhost` under which pages, not probes, are served. */
  readonly allowedHosts?: readonly string[];
}

/** The app of the admin port: `/metrics`, `/healthz` and `/readyz`, GET and HEAD only. Does not listen. */
export function createAdminApp(options: AdminAppOptions): Express {
  const app = express();
  app.enable('strict routing');
  app.enable('case sensitive routing');
  app.disable('etag');
  app.use(helmet(), allowGetAndHead);
  app.get('/metrics', rejectUnknownHosts(options), metrics(options));
  app.get('/healthz', (_request, response) => {
    plain(response, 200, 'ok');
  });
  app.get('/readyz', (_request, response) => {
    const state = options.readiness();
    response
      .status(state.ready ? 200 : 503)
      .set('Cache-Control', 'no-store')
      .type('json')
      .send(`${JSON.stringify(state)}\n`);
  });
  app.use((_request: Request, response: Response) => plain(response, 404, 'not found'));
  app.use(errorHandler);
  return app;
}

/** Express hands a rejection to {@link errorHandler}. */
function metrics({ page }: AdminAppOptions): (request: Request, response: Response) => Promise<void> {
  return async (request, response) => {
    const { contentType, body } = await page(prefersOpenMetrics(request.get('Accept')));
    response.set('Content-Type', contentType).vary('Accept').end(body);
  };
}

/** Probes are exempt: their responses hold nothing that another site must not read. */
function rejectUnknownHosts({ allowedHosts = [] }: AdminAppOptions): RequestHandler {
  return (request, response, next) => {
    if (isKnownHost(request.headers.host, allowedHosts)) next();
    else plain(response, 421, 'Unknown Host. Use an IP address, or add the name to admin.allowedHosts.');
  };
}

function allowGetAndHead(request: Request, response: Response, next: NextFunction): void {
  if (request.method === 'GET' || request.method === 'HEAD') next();
  else plain(response.set('Allow', 'GET, HEAD'), 405, 'method not allowed');
}

/** Express's own handler would print the stack. Four parameters make it an error handler. */
function errorHandler(_error: unknown, _request: Request, response: Response, _next: NextFunction): void {
  plain(response, 500, 'failed to render metrics');
}

function plain(response: Response, status: number, text: string): void {
  response.status(status).set('Cache-Control', 'no-store').type('text/plain').send(`${text}\n`);
}
