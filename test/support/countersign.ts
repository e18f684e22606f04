import type { IncomingHttpHeaders } from 'node:http';
import { Agent } from 'node:https';
import { type Status, statusSchema } from '../../src/observability/status/schema.ts';
import { samples } from './exposition.ts';
import { type HttpResponse, paths, post, statusForm, transferForm } from './forwarding.ts';
import { formRequest, RawConnection } from './raw-http.ts';
import type { RawResponse } from './response-reader.ts';
import { until } from './until.ts';

export type LogLine = Record<string, unknown>;
type Labels = Readonly<Record<string, string>>;

/** A Countersign that listens on loopback, in this process or in a separate one. */
export interface Countersign {
  readonly url: string;
  readonly adminUrl: string;
  /** Everything logged so far. */
  readonly logText: () => string;
  /** The complete lines of it; only those with this message, if given. */
  readonly logLines: (message?: string) => LogLine[];
  /** The access lines, once there are so many. */
  readonly requestLines: (count?: number) => Promise<LogLine[]>;
  /** The access line of this response. */
  readonly lineOf: (response: { readonly headers: IncomingHttpHeaders }) => Promise<LogLine>;
  readonly metrics: () => Promise<string>;
  /** `/status.json`, checked against its schema. */
  readonly instanceStatus: () => Promise<Status>;
  /** The text of `/` and of `/status.json`. */
  readonly statusPages: () => Promise<string>;
  /** All that was logged, and every page of the admin port that was read. */
  readonly seen: () => string;
  /** Sum of all series of a metric with these labels; `undefined` without such a series. */
  readonly metric: (name: string, labels?: Labels) => Promise<number | undefined>;
  /** The same, 0 without such a series. */
  readonly counted: (name: string, labels?: Labels) => Promise<number>;
  /** Status of `/readyz`. */
  readonly readiness: () => Promise<number>;
  /** Posts a form to a path on a new connection. */
  readonly post: (path: string, form?: string, headers?: Labels) => Promise<HttpResponse>;
  readonly balance: () => Promise<HttpResponse>;
  readonly status: () => Promise<HttpResponse>;
  readonly transfer: () => Promise<HttpResponse>;
  readonly connect: () => Promise<RawConnection>;
  /** Sends the bytes over a new connection, and returns the first response. */
  readonly send: (bytes: string | Buffer) => Promise<RawResponse>;
}

interface Addresses {
  readonly url: string;
  readonly adminUrl: string;
  /** Of the certificate of the proxy port, with TLS. */
  readonly ca?: Buffer | undefined;
}

/** @param logText everything logged so far */
export function observe({ url, adminUrl, ca }: Addresses, logText: () => string): Countersign {
  const logLines = (message?: string): LogLine[] => linesOf(logText(), message);
  const pages: string[] = [];
  const read = async (path: string): Promise<string> => {
    const page = await (await fetch(`${adminUrl}${path}`)).text();
    pages.push(page);
    return page;
  };
  const metrics = (): Promise<string> => read('/metrics');
  const metric = async (name: string, labels?: Labels) => sumOf(await metrics(), name, labels);
  const postTo = (path: string, form = '', headers = {}) =>
    post(`${url}${path}`, form, headers, ca === undefined ? {} : { agent: new Agent({ ca }) });
  return {
    url,
    adminUrl,
    logText,
    logLines,
    async requestLines(count = 1) {
      const lines = (): LogLine[] => logLines('request completed');
      await until(() => lines().length >= count, `${count} requests are logged`);
      return lines();
    },
    async lineOf({ headers }) {
      const find = () =>
        logLines('request completed').find(({ requestId }) => requestId === headers['x-request-id']);
      await until(() => find() !== undefined, 'the request is logged');
      return find() ?? {};
    },
    metrics,
    instanceStatus: async () => statusSchema.parse(JSON.parse(await read('/status.json'))),
    statusPages: async () => `${await read('/')}${await read('/status.json')}`,
    seen: () => [logText(), ...pages].join('\n'),
    metric,
    counted: async (name, labels) => (await metric(name, labels)) ?? 0,
    readiness: async () => (await fetch(`${adminUrl}/readyz`)).status,
    post: postTo,
    balance: () => postTo(paths.balance),
    status: () => postTo(paths.status, statusForm),
    transfer: () => postTo(paths.transfer, transferForm),
    connect: () => RawConnection.open(url, ca),
    async send(bytes) {
      const connection = await RawConnection.open(url, ca);
      try {
        return await connection.send(bytes).response();
      } finally {
        connection.close();
      }
    },
  };
}

/** The last line may still be incomplete. */
export function linesOf(text: string, message?: string): LogLine[] {
  const part = message === undefined ? '' : JSON.stringify(message);
  return text
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}') && line.includes(part))
    .map((line): LogLine => JSON.parse(line))
    .filter(({ msg }) => message === undefined || msg === message);
}

export function sumOf(page: string, name: string, labels: Labels = {}): number | undefined {
  const parts = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const values = [...samples(page)]
    .filter(([series]) => series.split('{')[0] === `countersign_${name}`)
    .filter(([series]) => parts.every((part) => series.includes(part)))
    .map(([, value]) => value);
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

/** Whether the connection still works: the next request is processed. */
export async function nextIsServed(connection: RawConnection): Promise<boolean> {
  const response = await connection.send(formRequest(paths.balance)).response();
  connection.close();
  return response.status === 200 && response.headers['countersign-outcome'] === 'answered';
}
