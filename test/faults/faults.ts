import type { Random } from '../support/random.ts';
import { bodyFor, chunkedResponse, responseWith } from './gateway-response.ts';

/** One request at the gateway, and what can be done with its connection. */
export interface GatewayRequest {
  readonly orderId: string;
  readonly random: Random;
  readonly write: (bytes: string | Buffer) => void;
  readonly end: () => void;
  readonly reset: () => void;
  readonly pauseReading: (milliseconds: number) => void;
  readonly after: (milliseconds: number, act: () => void) => void;
}

type Act = (request: GatewayRequest) => void;

/** The addresses of the gateway, one environment each: some fail before they can read a request. */
export const siteNames = ['plain', 'secure', 'refused', 'accept-reset', 'tls-cut'] as const;
export type SiteName = (typeof siteNames)[number];
/** At which no connection can be made, so that the only true outcome is `not-sent`. */
export const unreachable: ReadonlySet<SiteName> = new Set(['refused', 'tls-cut']);

interface Fault {
  /** When the gateway fails: never, before it has read the request, in place of the response, or after it. */
  readonly point: 'never' | 'connect' | 'request' | 'response' | 'after';
  /** How often it is chosen, relative to the others. */
  readonly weight: number;
  readonly act: Act;
  /** The only site that does it; without one, those that read requests. */
  readonly site?: SiteName;
}

const good: Act = ({ orderId, random, write }) =>
  write(responseWith({ body: bodyFor(orderId, sizeOf(random)) }));

/** Mostly small; some need more than one read of a socket. */
const sizeOf = (random: Random): number =>
  random.chance(0.06) ? random.int(20_000, 200_000) : random.int(0, 200);

/** Writes a part of a good response and then ends the connection. */
const cut =
  (from: number, to: number, ending: 'end' | 'reset', size = 300): Act =>
  (request) => {
    const bytes = responseWith({ body: bodyFor(request.orderId, size) });
    const share = from + (to - from) * request.random.next();
    request.write(bytes.subarray(0, Math.max(1, Math.floor(bytes.length * share))));
    request.after(size > 1_000_000 ? 50 : 0, request[ending]);
  };

/** A complete response, after which the connection ends without announcing it. */
const goodThen =
  (act: Act): Act =>
  (request) => {
    good(request);
    act(request);
  };

/** Its Content-Length is wrong by so many bytes. */
const wrongLength =
  (by: number): Act =>
  ({ orderId, write }) => {
    const body = bodyFor(orderId, 100);
    write(responseWith({ body, length: body.length + by }));
  };

const unreachableHere: Act = ({ reset }) => reset();
const fault = (point: Fault['point'], weight: number, act: Act, site?: SiteName): Fault =>
  site === undefined ? { point, weight, act } : { point, weight, act, site };

const table = {
  good: fault('never', 400, good),
  'good-slow': fault('never', 30, ({ orderId, write, after }) => {
    const bytes = responseWith({ body: bodyFor(orderId, 200) });
    write(bytes.subarray(0, 60));
    after(150, () => write(bytes.subarray(60)));
  }),
  'good-chunked': fault('never', 40, ({ orderId, random, write }) => {
    for (const piece of chunkedResponse(bodyFor(orderId, sizeOf(random)), random.int(1, 8))) write(piece);
  }),
  'good-close': fault('never', 30, ({ orderId, write, end }) => {
    write(responseWith({ body: bodyFor(orderId), headers: ['Connection: close'] }));
    end();
  }),
  'good-large': fault('never', 8, ({ orderId, random, write }) =>
    write(responseWith({ body: bodyFor(orderId, random.int(1_100_000, 3_000_000)) })),
  ),
  'status-500': fault('never', 30, ({ orderId, write }) =>
    write(responseWith({ status: '500 Internal Server Error', body: bodyFor(orderId) })),
  ),

  refused: fault('connect', 10, unreachableHere, 'refused'),
  'accept-reset': fault('connect', 15, unreachableHere, 'accept-reset'),
  'tls-cut': fault('connect', 10, unreachableHere, 'tls-cut'),

  'request-close': fault('request', 10, ({ end }) => end()),
  'request-reset': fault('request', 10, ({ reset }) => reset()),
  'early-response': fault('request', 4, (request) => {
    request.pauseReading(50);
    good(request);
  }),

  'read-close': fault('response', 10, ({ end }) => end()),
  'read-reset': fault('response', 10, ({ reset }) => reset()),
  hang: fault('response', 6, () => {}),
  'head-close': fault('response', 8, cut(0, 0.15, 'end')),
  'head-reset': fault('response', 8, cut(0, 0.15, 'reset')),
  'body-close': fault('response', 8, cut(0.4, 0.95, 'end')),
  'body-reset': fault('response', 8, cut(0.4, 0.95, 'reset')),
  'large-reset': fault('response', 4, cut(0.5, 0.95, 'reset', 2_500_000)),
  'length-too-long': fault('response', 8, (request) => {
    wrongLength(50)(request);
    request.end();
  }),
  'length-too-short': fault('response', 12, wrongLength(-50)),
  'chunks-broken': fault('response', 8, ({ orderId, write }) =>
    write(Buffer.concat([...chunkedResponse(bodyFor(orderId, 100), 2).slice(0, 2), Buffer.from('zz\r\n')])),
  ),
  'flood-1xx': fault('response', 10, (request) => {
    request.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(request.random.int(1, 500)));
    good(request);
  }),
  'switch-101': fault('response', 8, ({ write }) =>
    write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nother bytes'),
  ),
  garbage: fault('response', 10, ({ write, random, end }) => {
    write(random.bytes(random.int(1, 400)));
    end();
  }),

  'close-after': fault(
    'after',
    20,
    goodThen(({ end }) => end()),
  ),
  'reset-later': fault(
    'after',
    20,
    goodThen(({ after, reset, random }) => after(random.int(1, 80), reset)),
  ),
  'surplus-response': fault('after', 50, ({ orderId, random, write }) => {
    const [proper, surplus] = [orderId, `surplus-${orderId}`].map((id) =>
      responseWith({ body: bodyFor(id, sizeOf(random)) }),
    );
    write(Buffer.concat([proper!, surplus!]));
  }),
} as const satisfies Record<string, Fault>;

export type FaultName = keyof typeof table;
export const faults: Readonly<Record<FaultName, Fault>> = table;
export const faultNames = Object.keys(table).filter((name): name is FaultName => name in table);
