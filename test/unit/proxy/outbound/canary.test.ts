import { beforeEach, expect, it } from '@jest/globals';
import { configSchema } from '../../../../src/config/schema.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import { parseKeys } from '../../../../src/keys/key.ts';
import { KeySelector } from '../../../../src/keys/key-selector.ts';
import { endless } from '../../../../src/keys/waiting.ts';
import type { CanaryResult } from '../../../../src/observability/events.ts';
import { unlimitedMemory } from '../../../../src/proxy/limits.ts';
import { Canaries } from '../../../../src/proxy/outbound/canary.ts';
import type { ValidatedRequest } from '../../../../src/proxy/outbound/signed-request.ts';
import type { GatewayResponse } from '../../../../src/proxy/outbound/upstream-request.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const config = configSchema.parse({
  environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
  keys: { source: 'directory', directory: '/nowhere' },
});
const payment: ValidatedRequest = {
  record: { id: 'request-1', startedAt: 0, attempts: 0, durations: {} },
  destination: createRoutes(config).resolve('/sandbox/gw/api/v2/pan-eligibility/send/1234'),
  login: acme.login,
  form: [],
  memory: unlimitedMemory(),
};

let now: number;
let canaries: Canaries;
let results: CanaryResult[];
let sent: PromiseWithResolvers<GatewayResponse>[];
let requests: ValidatedRequest[];
let timers: { readonly run: () => void; readonly milliseconds: number }[];

/** The ring holds two keys and none was accepted yet, so a canary is due. */
beforeEach(() => {
  [now, results, sent, requests, timers] = [0, [], [], [], []];
  const ring = [
    ...parseKeys({ control_key: 'new' }, { version: 2 }),
    ...parseKeys({ control_key: 'old' }, { version: 1, supersededAt: new Date(0) }),
  ];
  const monotonic = (): number => now;
  const keySelector = new KeySelector({
    keys: {
      get: async () => ring,
      cached: () => ring,
      look: async () => ring,
      isFailing: () => false,
      keep: () => {},
    },
    metrics: { keyFallback: () => {}, keyProblem: () => {} },
    clock: () => 0,
    monotonic,
    setTimer: () => () => {},
    rotationGracePeriod: 86_400_000,
  });
  canaries = new Canaries(createRoutes(config), {
    keySelector,
    metrics: { canarySent: (_environment, result) => void results.push(result) },
    monotonic,
    nonce: () => 'nonce',
    setTimer: (run, milliseconds) => {
      timers.push({ run, milliseconds });
      return () => {};
    },
  });
});

/** Starts a payment. `ready` shows whether it may be sent. */
function startPayment(): { ready: boolean; error?: unknown } {
  const state: { ready: boolean; error?: unknown } = { ready: false };
  const send = (request: ValidatedRequest): Promise<GatewayResponse> => {
    requests.push(request);
    const response = Promise.withResolvers<GatewayResponse>();
    sent.push(response);
    return response.promise;
  };
  const sendCanary = async (): Promise<void> => {
    await canaries.sendBefore(payment, acme, endless, send);
    state.ready = true;
  };
  sendCanary().catch((error: unknown) => {
    state.error = error;
  });
  return state;
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const accepted: GatewayResponse = { status: 200, headers: {}, body: Buffer.alloc(0) };

it('a payment waits at most 2 s for a canary', async () => {
  const first = startPayment();
  await settle();
  now = 1_999;
  const second = startPayment();
  await settle();
  expect([first.ready, second.ready, sent.length]).toEqual([false, false, 1]);
  now = 2_000;
  for (const { run, milliseconds } of timers) {
    expect(milliseconds).toBe(2_000);
    run();
  }
  await settle();
  expect([first.ready, second.ready]).toEqual([true, true]);
  const third = startPayment();
  await settle();
  expect([third.ready, sent.length]).toEqual([false, 2]);
  for (const response of sent) response.resolve(accepted);
  await settle();
  expect(third.ready).toBe(true);
  expect(results).toEqual(['accepted', 'accepted']);
});

it('a canary has less time than a payment, and its own durations', async () => {
  startPayment();
  await settle();
  const [request] = requests;
  expect(request?.destination.settings.timeouts).toEqual({ connect: 1_000, request: 2_000 });
  expect(request?.record).toEqual({ ...payment.record, isCanary: true });
  expect(request?.record.durations).not.toBe(payment.record.durations);
});

it('a payment does not wait after its canary has a response', async () => {
  const first = startPayment();
  await settle();
  sent[0]?.resolve(accepted);
  await settle();
  expect(first.ready).toBe(true);
});

it.each([
  [200, 'accepted'],
  [401, 'failed'],
  [403, 'rejected'],
  [500, 'failed'],
] as const)('a canary with status %i counts as %s', async (status, result) => {
  startPayment();
  await settle();
  sent[0]?.resolve({ ...accepted, status });
  await settle();
  expect(results).toEqual([result]);
});

it('an internal error in one canary fails its payment only, not the ones after it', async () => {
  const first = startPayment();
  await settle();
  sent[0]?.reject(new TypeError('internal'));
  await settle();
  expect(first).toEqual({ ready: false, error: new TypeError('internal') });
  now += 10_000;
  const second = startPayment();
  await settle();
  sent[1]?.resolve(accepted);
  await settle();
  expect([second, results]).toEqual([{ ready: true }, ['failed', 'accepted']]);
});
