import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Random } from '../support/random.ts';
import type { Gateway, Options } from './options.ts';
import type { Row } from './rotation.ts';

/** The endpoints of the row with this index: of most requests, and one that some gateways deny. */
export const endpointOf = (index: number): string => String(2_000 + index);
export const deniedEndpointOf = (index: number): string => String(5_000 + index);

/** Milliseconds by which a clock is ahead. */
const skew = 120_000;
const page = '<!DOCTYPE html>\n<html><body>Not now</body></html>\n';
/** What a balancer responds: none of it is the gateway's. */
const balancers: readonly (readonly [status: number, type: string, body: string])[] = [
  [200, 'text/html', page],
  [200, 'application/json', '{"status":"ok"}'],
  [302, 'text/html', page],
  [404, 'text/html', page],
  [429, 'text/plain', 'Too many requests'],
  [503, 'text/html', page],
];

/** Makes the gateway of each row what it is like. */
export function frontOf(rows: readonly Row[], { seed, latency }: Pick<Options, 'seed' | 'latency'>) {
  const random = new Random(seed, 'balancer');
  const likes = new Map<string | undefined, Gateway | 'no permission'>(
    rows.flatMap(({ login, gateway }, index) => [
      [login, gateway],
      [endpointOf(index), gateway],
      [deniedEndpointOf(index), 'no permission'],
    ]),
  );
  const handle = (request: IncomingMessage, response: ServerResponse, gateway: () => void): void => {
    const { url = '' } = request;
    const like = likes.get(url.split('/').at(-1));
    if (like === 'no permission') return respond(request, response, [403, 'text/html', page]);
    if (like === 'balancer' && random.chance(0.25)) return respond(request, response, random.pick(balancers));
    if (like === '401') change(response, (status) => (status === 403 ? 401 : status));
    // Every query, and half of the payments.
    const error = url.includes('/transfer/') ? [200, 422] : [404];
    if (like === '4xx') change(response, (status) => (status === 200 ? random.pick(error) : status));
    if (like === 'skew')
      change(response, (status) => status, { Date: new Date(Date.now() + skew).toUTCString() });
    gateway();
  };
  return (...call: Parameters<typeof handle>): void =>
    void setTimeout(handle, latency * (0.5 + random.next()), ...call);
}

function respond(
  request: IncomingMessage,
  response: ServerResponse,
  [status, type, body]: readonly [number, string, string],
): void {
  request.resume();
  response.writeHead(status, { 'Content-Type': type, ...(status === 302 && { Location: '/' }) }).end(body);
}

function change(
  response: ServerResponse,
  status: (gateways: number) => number,
  more: OutgoingHttpHeaders = {},
): void {
  const writeHead = response.writeHead.bind(response);
  response.writeHead = (code: number, headers?: string | OutgoingHttpHeaders | OutgoingHttpHeader[]) =>
    writeHead(status(code), {
      ...(typeof headers === 'object' && !Array.isArray(headers) ? headers : {}),
      ...more,
    });
}
