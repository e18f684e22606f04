import { execFileSync } from 'node:child_process';
import { Agent } from 'node:http';
import { fileURLToPath } from 'node:url';
import { afterAll, expect } from '@jest/globals';
import * as fc from 'fast-check';
import { anyCharacter } from '../support/any-character.ts';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { itWith } from '../support/requires.ts';
import { testControlKey } from '../support/service.ts';

const seed = 20_261_127;
const count = 5_000;
const atOnce = 32;
const starts = harness(afterAll);

const text = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 12 });
const currencies = { JPY: 0, KRW: 0, EUR: 2, USD: 2, KWD: 3, TND: 3 };
const money = fc
  .tuple(fc.constantFrom(...Object.entries(currencies)), fc.bigInt(0n, 10n ** 15n), fc.nat(999), fc.nat(3))
  .map(([[currency, decimals], units, fraction, shown]) => {
    const digits = String(fraction).padStart(3, '0').slice(0, Math.min(decimals, shown));
    return { amount: digits === '' ? String(units) : `${units}.${digits}`, currency };
  });
const forms = fc.record(
  { client_orderid: text, orderid: text, money, email: text, comment: text },
  { requiredKeys: ['client_orderid', 'email'] },
);

itWith('python3')(
  `${count} random forms have the control, and as many callbacks the verdict, of another implementation (seed ${seed})`,
  async () => {
    const edge = await starts.edge({
      logLevel: 'silent',
      config: {
        operations: {
          capture: {
            path: '/api/v2/capture/{endpoint}',
            signature: 'SHA1-control',
            loginFrom: 'header',
            control: ['login', '{endpoint}', 'client_orderid', 'amount', 'currency', 'email'],
            parameters: {
              amount: { minorUnitsOf: 'currency', required: false },
              currency: { required: false },
            },
          },
        },
      },
    });
    edge.gateway.respond = (response, { body }) => response.end(body);
    const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
    starts.atEnd(() => agent.destroy());
    const send = async (path: string, pairs: readonly (readonly [string, string])[]): Promise<string> => {
      const form = new URLSearchParams(pairs.map(([name, value]) => [name, value])).toString();
      const { body } = await post(
        `${edge.url}/sandbox/gw${path}`,
        form,
        { 'Countersign-Login': 'acme' },
        { agent },
      );
      return body;
    };
    const sent = fc
      .sample(forms, { seed, numRuns: count })
      .map(({ money: amount, ...rest }) => Object.entries({ ...rest, ...amount }));
    const received = await concurrently(sent, (pairs) => send('/api/v2/capture/1234', pairs));
    const callbacks = fc.sample(fc.tuple(text, text, text), { seed, numRuns: count });
    const input = { key: testControlKey, forms: sent.map((pairs, at) => [pairs, received[at]]), callbacks };
    const script = fileURLToPath(new URL('controls-recomputed.py', import.meta.url));
    const output = execFileSync('python3', [script], { input: JSON.stringify(input), maxBuffer: 1e8 });
    const lines = String(output).trimEnd().split('\n');
    expect(lines.slice(0, -1)).toEqual([]);
    const controls: string[] = JSON.parse(lines.at(-1) ?? '');
    expect(controls).toHaveLength(count);
    const signed = callbacks.map(([status, orderid, order], at) => ({
      status,
      orderid,
      order,
      control: controls[at] ?? '',
    }));
    const verdicts = await concurrently(signed, ({ status, orderid, order, control }) =>
      send('/verify-callback', [
        ['status', status],
        ['orderid', orderid],
        ['client_orderid', order],
        ['control', control],
      ]),
    );
    expect(new Set(verdicts.map((body) => JSON.parse(body).result))).toEqual(new Set(['verified']));
    expect(edge.gateway.requests).toHaveLength(count);
  },
  180_000,
);

async function concurrently<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}
