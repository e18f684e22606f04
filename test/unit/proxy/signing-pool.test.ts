import { beforeEach, describe, expect, it } from '@jest/globals';
import type { SigningKey } from '../../../src/oauth1/methods.ts';
import type { Unsigned } from '../../../src/oauth1/sign.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { SigningPool } from '../../../src/proxy/signing-pool.ts';
import { Secret } from '../../../src/secret.ts';
import { privateKeyOf } from '../../support/vectors.ts';

const rsa: SigningKey = { kind: 'private_key', privateKey: privateKeyOf('rsa-2048-pkcs8.pem') };
const hmac: SigningKey = { kind: 'control_key', secret: new Secret('control key') };

const acme = { environment: 'sandbox', login: 'acme' };

const unsigned = (signatureMethod: Unsigned['signatureMethod'], timestamp = 1): Unsigned => ({
  method: 'POST',
  url: new URL('https://gateway.example/gw/api/v4/transfer/1234'),
  form: [],
  signatureMethod,
  consumerKey: 'acme',
  nonce: 'n',
  timestamp,
});

let depths: number[];
let signed: string[];
let metrics: ReturnType<typeof createPrometheus>;
beforeEach(() => {
  [depths, signed] = [[], []];
  metrics = {
    ...createPrometheus({ version: '0', environments: {}, callers: [] }),
    signingQueueChanged: (depth) => void depths.push(depth),
    signed: (method) => void signed.push(method),
  };
});

describe('RSA signatures', () => {
  it('are rejected immediately if the queue is full', async () => {
    const signer = new SigningPool({ concurrency: 1, maxQueue: 2 }, metrics, () => performance.now());
    const results = await Promise.allSettled(
      Array.from({ length: 5 }, () => signer.sign(unsigned('RSA-SHA256'), rsa, acme)),
    );
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
      'rejected',
    ]);
    expect(results[4]).toMatchObject({ reason: { reason: 'overloaded', headers: { 'Retry-After': '1' } } });
    expect(Math.max(...depths)).toBe(2);
    expect(depths.at(-1)).toBe(0);
    expect(signed).toEqual(['RSA-SHA256', 'RSA-SHA256', 'RSA-SHA256']);
  });

  it('are made in the order of the requests', async () => {
    const signer = new SigningPool({ concurrency: 1, maxQueue: 5 }, metrics, () => performance.now());
    const order: number[] = [];
    await Promise.all(
      [1, 2, 3, 4].map(async (number) => {
        await signer.sign(unsigned('RSA-SHA256'), rsa, acme);
        order.push(number);
      }),
    );
    expect(order).toEqual([1, 2, 3, 4]);
  });

  it('that were queued occupy a slot: a third one is queued and a fourth is rejected', async () => {
    const signer = new SigningPool({ concurrency: 1, maxQueue: 1 }, metrics, () => performance.now());
    const [first, second] = [
      signer.sign(unsigned('RSA-SHA256'), rsa, acme),
      signer.sign(unsigned('RSA-SHA256'), rsa, acme),
    ];
    await first;
    const later = [
      signer.sign(unsigned('RSA-SHA256'), rsa, acme),
      signer.sign(unsigned('RSA-SHA256'), rsa, acme),
    ];
    const results = await Promise.allSettled([second, ...later]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
  });

  it('that fail release their slot', async () => {
    const signer = new SigningPool({ concurrency: 1, maxQueue: 5 }, metrics, () => performance.now());
    const failing = signer.sign(unsigned('RSA-SHA256', -1), rsa, acme);
    const next = signer.sign(unsigned('RSA-SHA256'), rsa, acme);
    await expect(failing).rejects.toThrow(TypeError);
    await expect(next).resolves.toHaveProperty('authorization');
    await expect(signer.sign(unsigned('RSA-SHA256'), rsa, acme)).resolves.toHaveProperty('body');
  });
});

it('HMAC signatures are not queued', async () => {
  const signer = new SigningPool({ concurrency: 1, maxQueue: 1 }, metrics, () => performance.now());
  const busy = [
    signer.sign(unsigned('RSA-SHA256'), rsa, acme),
    signer.sign(unsigned('RSA-SHA256'), rsa, acme),
  ];
  await Promise.all(Array.from({ length: 10 }, () => signer.sign(unsigned('HMAC-SHA1'), hmac, acme)));
  await Promise.all(busy);
  expect(signed.filter((method) => method === 'HMAC-SHA1')).toHaveLength(10);
});
