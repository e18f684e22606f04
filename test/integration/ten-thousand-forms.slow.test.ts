import { execFileSync } from 'node:child_process';
import { Agent } from 'node:http';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { Pair } from '../../src/oauth1/parameters.ts';
import { anyCharacter } from '../support/any-character.ts';
import { formArbitrary } from '../support/form.ts';
import { paths, post } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import type { Recorded } from '../support/recording-gateway.ts';
import { itWith } from '../support/requires.ts';
import { testControlKey } from '../support/service.ts';
import { publicKeyOf } from '../support/vectors.ts';
import { receivedFrom, type VerificationKey, verifyAuthorization } from '../support/verify.ts';

const seed = 20_261_127;
/** Of each kind. */
const count = 2_500;

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  const amounts = { amount: { minorUnitsOf: 'currency', required: false }, currency: { required: false } };
  edge = await starts.edge({
    logLevel: 'silent',
    config: {
      operations: {
        // Forms without an order ID, and with names that repeat, are not what this is about.
        transfer: { parameters: { client_orderid: { required: false } }, allowRepeatedParameters: true },
        capture: {
          path: '/api/v2/capture/{endpoint}',
          signature: 'SHA1-control',
          loginFrom: 'header',
          control: ['login', '{endpoint}', 'client_orderid', 'amount', 'currency', 'email'],
          parameters: amounts,
        },
      },
    },
  });
  // The gateway echoes what it received, to match each form with its own request.
  edge.gateway.respond = (response, { body }) => response.end(body);
});

/** Posts all, many at a time. @returns the bodies of the responses, form by form */
async function sendAll(path: string, forms: readonly string[]): Promise<string[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const headers = { 'Countersign-Login': 'acme' };
  const sent = forms.map((form) => post(`${edge.url}${path}`, form, headers, { agent }));
  const responses = await Promise.all(sent).finally(() => agent.destroy());
  return responses.map(({ body }) => body);
}

const encoded = (pairs: Iterable<Pair>): string =>
  String(new URLSearchParams([...pairs].map(([name, value]) => [name, value])));

/** Alternates between the encodings of browsers, curl and OAuth libraries. */
const encode = (form: readonly Pair[], index: number): string =>
  index % 2 === 0
    ? encoded(form)
    : form.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');

it.each<[string, string, VerificationKey]>([
  ['HMAC-SHA1', paths.balance, { controlKey: testControlKey }],
  ['RSA-SHA256', paths.transfer, { publicKey: publicKeyOf('rsa-2048-public.pem') }],
])(
  `${count} generated forms (seed ${seed}) reach the gateway unchanged and correctly signed with %s`,
  async (_, path, key) => {
    /** Names that would make a form be rejected for their meaning, not their encoding. */
    const meaningful = new Set(['login', 'balance-name']);
    const forms = formArbitrary.map((form) => form.filter(([name]) => !meaningful.has(name)));
    const sample = fc.sample(forms, { seed, numRuns: count });
    edge.gateway.requests.length = 0;
    const echoes = await sendAll(path, sample.map(encode));
    const { requests } = edge.gateway;
    expect(requests).toHaveLength(count);
    const received = new Map(requests.map((request) => [request.body.toString('latin1'), request]));
    // Nonces make bodies different: no request was sent twice, and none was confused with another.
    expect(received.size).toBe(count);
    for (const [index, form] of sample.entries()) {
      const problem = problemWith(form, received.get(echoes[index] ?? ''), key);
      if (problem !== undefined) throw new Error(`seed ${seed}, form ${index}: ${problem}`);
    }
  },
  120_000,
);

/** The first problem, at the gateway or at the client; `undefined` if there is none. */
function problemWith(
  form: readonly Pair[],
  received: Recorded | undefined,
  key: VerificationKey,
): string | undefined {
  if (received === undefined) return 'it did not reach the gateway';
  const { headers, body } = received;
  let verified: readonly Pair[];
  try {
    verified = verifyAuthorization(receivedFrom(received), key).form;
  } catch (error) {
    return String(error);
  }
  if (JSON.stringify(verified) !== JSON.stringify(form)) return 'its pairs have changed';
  const names = [...body.toString('latin1').matchAll(/(?:^|&)([^=&]*)/g)].map(([, name]) => name);
  const oauth = 'consumer_key nonce signature_method timestamp version'.replaceAll(/\w+/g, 'oauth_$&');
  if (names.slice(-5).join(' ') !== oauth) return 'the OAuth parameters do not end it';
  return Number(headers['content-length']) === body.length ? undefined : 'its length is wrong';
}

const text = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 12 });
const currencies = { JPY: 0, KRW: 0, EUR: 2, USD: 2, KWD: 3, TND: 3 };
const money = fc
  .tuple(fc.constantFrom(...Object.entries(currencies)), fc.bigInt(0n, 10n ** 15n), fc.nat(999), fc.nat(3))
  .map(([[currency, decimals], units, fraction, shown]) => {
    const digits = String(fraction).padStart(3, '0').slice(0, Math.min(decimals, shown));
    return { amount: digits === '' ? String(units) : `${units}.${digits}`, currency };
  });
const orders = fc.record(
  { client_orderid: text, orderid: text, money, email: text, comment: text },
  { requiredKeys: ['client_orderid', 'email'] },
);

itWith('python3')(
  `${count} generated forms (seed ${seed}) have the control, and as many callbacks the verdict, of another implementation`,
  async () => {
    const sent = fc
      .sample(orders, { seed, numRuns: count })
      .map(({ money: amount, ...rest }) => Object.entries({ ...rest, ...amount }));
    const received = await sendAll('/sandbox/gw/api/v2/capture/1234', sent.map(encoded));
    const callbacks = fc.sample(fc.tuple(text, text, text), { seed, numRuns: count });
    const input = { key: testControlKey, forms: sent.map((pairs, at) => [pairs, received[at]]), callbacks };
    const script = fileURLToPath(new URL('controls-recomputed.py', import.meta.url));
    const output = execFileSync('python3', [script], { input: JSON.stringify(input), maxBuffer: 1e8 });
    const lines = String(output).trimEnd().split('\n');
    expect(lines.slice(0, -1)).toEqual([]);
    const controls: string[] = JSON.parse(lines.at(-1) ?? '');
    expect(controls).toHaveLength(count);
    const signed = callbacks.map(([status, orderid, client_orderid], at) =>
      encoded(Object.entries({ status, orderid, client_orderid, control: controls[at] ?? '' })),
    );
    edge.gateway.requests.length = 0;
    const verdicts = await sendAll('/sandbox/gw/verify-callback', signed);
    expect(new Set(verdicts.map((body) => JSON.parse(body).result))).toEqual(new Set(['verified']));
    expect(edge.gateway.requests).toHaveLength(0);
  },
  180_000,
);
