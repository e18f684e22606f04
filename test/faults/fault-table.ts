/** At which point of an upstream request the gateway fails. */
export type Point = 'none' | 'connect' | 'request' | 'wait' | 'response' | 'after';

/**
 * The addresses of the gateway, one environment each: what happens before the first byte of a request cannot
 * depend on the request.
 */
const siteNames = [
  'plain',
  'secure',
  'flapping',
  'refused',
  'black-hole',
  'accept-close',
  'accept-reset',
  'wrong-name',
  'tls-cut',
] as const;
export type SiteName = (typeof siteNames)[number];

/** Sites at which no connection can be made, so that the only true outcome is `not-sent`. */
export const unreachable: ReadonlySet<SiteName> = new Set(['refused', 'black-hole', 'wrong-name', 'tls-cut']);

interface Row {
  readonly point: Point;
  /** How often it is chosen for the first attempt, relative to the others. */
  readonly weight: number;
  /** The only site that does it; without one, every site that reads requests. */
  readonly site?: SiteName;
}

const row = (point: Point, weight: number, site?: SiteName): Row =>
  site === undefined ? { point, weight } : { point, weight, site };

export const faults = {
  good: row('none', 400),
  'good-slow': row('none', 30),
  'good-chunked': row('none', 40),
  'good-close': row('none', 30),
  'good-large': row('none', 8),
  'good-while-flapping': row('none', 12, 'flapping'),
  'status-403': row('none', 15),
  'status-429': row('none', 15),
  'status-500': row('none', 15),

  refused: row('connect', 10, 'refused'),
  'black-hole': row('connect', 4, 'black-hole'),
  'accept-close': row('connect', 10, 'accept-close'),
  'accept-reset': row('connect', 10, 'accept-reset'),
  'tls-wrong-name': row('connect', 8, 'wrong-name'),
  'tls-handshake-cut': row('connect', 8, 'tls-cut'),

  'request-close': row('request', 10),
  'request-reset': row('request', 10),
  'early-response': row('request', 4),
  'early-response-close': row('request', 4),

  'read-close': row('wait', 10),
  'read-reset': row('wait', 10),
  'read-reset-then-refused': row('wait', 4, 'flapping'),
  hang: row('wait', 6),

  'head-close': row('response', 8),
  'head-reset': row('response', 8),
  'body-close': row('response', 8),
  'body-reset': row('response', 8),
  'large-reset': row('response', 4),
  'length-too-long': row('response', 8),
  'length-too-short': row('response', 12),
  'chunks-broken': row('response', 8),
  'chunks-cut': row('response', 8),
  drip: row('response', 4),
  'flood-1xx': row('response', 10),
  'flood-1xx-endless': row('response', 3),
  'switch-101': row('response', 8),
  garbage: row('response', 10),

  'close-after': row('after', 15),
  'reset-after': row('after', 15),
  'close-later': row('after', 15),
  'surplus-joined': row('after', 25),
  'surplus-next': row('after', 15),
  'surplus-later': row('after', 25),
} as const satisfies Record<string, Row>;

export type FaultName = keyof typeof faults;
export const faultNames: readonly FaultName[] = Object.keys(faults).filter(isFault);

function isFault(name: string): name is FaultName {
  return Object.hasOwn(faults, name);
}

/** The row of a fault, with its optional fields. */
export function faultRow(name: FaultName): Row {
  return faults[name];
}

/** Faults after which the gateway's response is complete and belongs to the request. */
export function isWholeResponse(name: FaultName): boolean {
  return faults[name].point === 'none';
}
