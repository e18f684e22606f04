import { setTimeout as wait } from 'node:timers/promises';
import { type ConfigInput, everything, tokenCredential } from './config.ts';
import type { Countersign } from './countersign.ts';
import type { HttpResponse } from './forwarding.ts';

/** Two callers: whoever sends no token is the victim. */
export const victim = { name: 'shop', credentials: [{ anonymous: true as const }], allow: [everything] };
export const asAttacker = { Authorization: 'Bearer attacker' };

/** A caller with the token of {@link asAttacker}, who may use logins that match these patterns. */
export function attacker(
  logins: readonly string[] = ['*'],
  environments: readonly string[] = ['*'],
): NonNullable<ConfigInput['callers']>[number] {
  const allow = [{ environments: [...environments], operations: ['*'], logins: [...logins] }];
  return { name: 'attacker', credentials: [tokenCredential('attacker')], allow };
}

export const balancePath = (login: string, environment = 'sandbox'): string =>
  `/${environment}/gw/api/v2/get-balance/manager/${login}`;

let orders = 0;

/** A payment of a login at any endpoint. */
export function pay(
  proxy: Countersign,
  endpoint: string,
  { login = 'acme', environment = 'sandbox', headers = {}, order = '' } = {},
): Promise<HttpResponse> {
  orders += 1;
  const form = new URLSearchParams({ client_orderid: `${order}${orders}`, amount: '1.00', currency: 'EUR' });
  const all = { 'Countersign-Login': login, ...headers };
  return proxy.post(`/${environment}/gw/api/v4/transfer/${endpoint}`, String(form), all);
}

/** Keeps so many requests in flight until it is stopped. */
export function keepInFlight(
  count: number,
  send: (nth: number) => Promise<unknown>,
): { stop: () => Promise<number> } {
  const end = new AbortController();
  let sent = 0;
  const client = async (): Promise<void> => {
    while (!end.signal.aborted) {
      sent += 1;
      // Connections may be refused while many are opened.
      await send(sent).catch(() => wait(10));
    }
  };
  const clients = Array.from({ length: count }, client);
  return {
    async stop() {
      end.abort();
      await Promise.all(clients);
      return sent;
    },
  };
}

/** Sends requests at a fixed pace, whatever becomes of those before. */
export async function atPace<T>(
  count: number,
  every: number,
  send: (nth: number) => Promise<T>,
): Promise<T[]> {
  const startedAt = performance.now();
  const sent: Promise<T>[] = [];
  for (let nth = 0; nth < count; nth += 1) {
    sent.push(send(nth));
    await wait(Math.max(0, startedAt + (nth + 1) * every - performance.now()));
  }
  return Promise.all(sent);
}

/** How often each status occurs. */
export function statuses(responses: readonly HttpResponse[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
