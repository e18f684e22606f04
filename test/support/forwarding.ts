import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { samples } from './exposition.ts';
import type { TestProxy } from './service.ts';

/** What a caller of the proxy got. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** `false`: the connection ended before the answer did. */
  readonly complete: boolean;
}

export const paths = {
  balance: '/sandbox/gw/api/v2/get-balance/manager/acme',
  status: '/sandbox/gw/api/v4/status/1234',
  transfer: '/sandbox/gw/api/v4/transfer/1234',
} as const;

export const statusForm = 'login=acme&client_orderid=invoice-1';
export const transferForm = 'client_orderid=invoice-7&amount=12.50&currency=EUR';

/** Posts a form on a connection of its own. Rejects where no head of an answer comes. */
export function post(
  url: string,
  form: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const own = {
      'Content-Type': 'application/x-www-form-urlencoded',
      'Content-Length': Buffer.byteLength(form),
    };
    const request = httpRequest(url, { method: 'POST', agent: false, headers: { ...own, ...headers } });
    request.once('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      // A break shows as `complete: false`.
      request.off('error', reject).once('error', () => {});
      response.once('error', () => {});
      response.once('close', () => {
        const body = Buffer.concat(chunks).toString('latin1');
        const { statusCode: status = 0, headers: received, complete } = response;
        resolve({ status, headers: received, body, complete });
      });
    });
    request.once('error', reject);
    request.end(form);
  });
}

export const askBalance = (proxy: TestProxy): Promise<Answer> => post(`${proxy.url}${paths.balance}`, '');
export const askStatus = (proxy: TestProxy): Promise<Answer> =>
  post(`${proxy.url}${paths.status}`, statusForm);
export const transfer = (proxy: TestProxy): Promise<Answer> =>
  post(`${proxy.url}${paths.transfer}`, transferForm);

/** What every answer of Countersign's own says of itself, in one line. */
export function verdict({ status, headers, body }: Answer): string {
  const { reason, outcome } = JSON.parse(body);
  return `${status} ${reason} ${outcome} ${String(headers['countersign-outcome'])}`;
}

/** The log lines of exchanges, once there are so many. */
export async function exchanges(proxy: TestProxy, count = 1): Promise<Record<string, unknown>[]> {
  const lines = (): Record<string, unknown>[] =>
    proxy.logLines().filter(({ msg }) => msg === 'request completed');
  await until(() => lines().length >= count);
  return lines();
}

/** Resolves when it is so; fails after five seconds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if (await holds()) return;
    await wait(10);
  }
  throw new Error('what was waited for did not happen');
}

/** The sum of all series of a metric whose labels are among these. */
export async function counted(
  proxy: TestProxy,
  metric: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  let sum = 0;
  for (const [series, value] of samples(await proxy.metrics())) {
    const named = series === `countersign_${metric}` || series.startsWith(`countersign_${metric}{`);
    if (named && parts.every((part) => series.includes(part))) sum += value;
  }
  return sum;
}
