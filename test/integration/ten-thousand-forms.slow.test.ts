import { Agent } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { Pair } from '../../src/oauth1/parameters.ts';
import { formArbitrary } from '../support/form.ts';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { Recorded, RecordingGateway } from '../support/recording-gateway.ts';
import { type TestProxy, testControlKey } from '../support/service.ts';
import { publicKeyOf } from '../support/vectors.ts';
import { receivedFrom, type VerificationKey, verifyAuthorization } from '../support/verify.ts';

const seed = 20_260_115;
const count = 10_000;
const callersAtOnce = 32;

/** Names that would make a form be rejected for their meaning, not their encoding. */
const meaningful = new Set(['login', 'balance-name']);
const forms = formArbitrary.map((form) => form.filter(([name]) => !meaningful.has(name)));

const methods: [name: string, target: string, key: VerificationKey][] = [
  ['HMAC-SHA1', '/sandbox/gw/api/v2/get-balance/manager/acme', { controlKey: testControlKey }],
  ['RSA-SHA256', '/sandbox/gw/api/v4/transfer/1234', { publicKey: publicKeyOf('rsa-2048-public.pem') }],
];

const starts = harness(afterAll);
let gateway: RecordingGateway;
let proxy: TestProxy;

beforeAll(async () => {
  gateway = await starts.recordingGateway();
  // The gateway echoes what it received, to match each form with its own request.
  gateway.respond = (response, { body }) => response.end(body);
  // Forms without an order ID, and with names that repeat, are not what this is about.
  const transfer = { parameters: { client_orderid: { required: false } }, allowRepeatedParameters: true };
  proxy = await starts.proxy({ gateway: gateway.url, config: { operations: { transfer } } });
});

describe(`${count} generated forms (seed ${seed})`, () => {
  it.each(methods)(
    'reach the gateway unchanged and correctly signed with %s',
    async (_, target, key) => {
      const sample = fc.sample(forms, { seed, numRuns: count });
      gateway.requests.length = 0;
      const echoes = await sendAll(sample, target);
      expect(gateway.requests).toHaveLength(count);
      const received = new Map(gateway.requests.map((request) => [request.body.toString('latin1'), request]));
      // Nonces make bodies different: no request was sent twice, and none was confused with another.
      expect(received.size).toBe(count);
      for (const [index, form] of sample.entries()) {
        const problem = problemWith(form, received.get(echoes[index] ?? ''), key);
        if (problem !== undefined) throw new Error(`seed ${seed}, form ${index}: ${problem}`);
      }
    },
    120_000,
  );
});

/** @returns what the gateway echoed, form by form */
async function sendAll(sample: readonly Pair[][], target: string): Promise<string[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: callersAtOnce });
  const echoes: string[] = [];
  const queue = sample.entries();
  const caller = async (): Promise<void> => {
    for (const [index, form] of queue) {
      echoes[index] = (await post(`${proxy.url}${target}`, encode(form, index), {}, { agent })).body;
    }
  };
  try {
    await Promise.all(Array.from({ length: callersAtOnce }, caller));
  } finally {
    agent.destroy();
  }
  return echoes;
}

/** Alternates between the encodings of browsers, curl and OAuth libraries. */
function encode(form: readonly Pair[], index: number): string {
  if (index % 2 === 0) return new URLSearchParams(form.map(([name, value]) => [name, value])).toString();
  return form.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
}

const oauthNames = [
  'oauth_consumer_key',
  'oauth_nonce',
  'oauth_signature_method',
  'oauth_timestamp',
  'oauth_version',
];

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
  const names = body
    .toString('latin1')
    .split('&')
    .map((part) => part.slice(0, part.indexOf('=')));
  if (names.slice(-oauthNames.length).join() !== oauthNames.join())
    return 'the OAuth parameters do not end it';
  return Number(headers['content-length']) === body.length ? undefined : 'its length is wrong';
}
