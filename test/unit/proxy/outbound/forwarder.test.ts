import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../../src/config/schema.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import type { KeyTable } from '../../../../src/keys/table.ts';
import type { Pair } from '../../../../src/oauth1/parameters.ts';
import { createPrometheus } from '../../../../src/observability/prometheus.ts';
import { unlimitedMemory } from '../../../../src/proxy/limits.ts';
import { Forwarder } from '../../../../src/proxy/outbound/forwarder.ts';
import type { SendOptions } from '../../../../src/proxy/outbound/upstream-client.ts';
import { UpstreamError } from '../../../../src/proxy/outbound/upstream-error.ts';
import type { GatewayResponse, SignedHttpRequest } from '../../../../src/proxy/outbound/upstream-request.ts';
import { withTrueOutcome } from '../../../../src/proxy/outcome.ts';
import { SigningPool } from '../../../../src/proxy/signing-pool.ts';
import type { RequestRecord } from '../../../../src/request-context.ts';
import { configFor } from '../../../support/config.ts';
import { fixedKeys } from '../../../support/fixed-keys.ts';
import { routesOf } from '../../../support/routes.ts';
import { verifyAuthorization } from '../../../support/verify.ts';
import { noon } from '../../../support/virtual-clock.ts';
import { ringOf } from '../../keys/scripted-source.ts';

const balance = '/sandbox/gw/api/v2/get-balance/manager/acme';
const eligibility = '/sandbox/gw/api/v2/pan-eligibility/send/1234';

/** Gateway responses, one per upstream request; the last one is repeated. */
let responses: (GatewayResponse | Error)[];
let sent: SignedHttpRequest[];
let sendOptions: SendOptions[];
let monotonic: number;
/** Milliseconds that a lookup of keys, a signature, and an upstream request take. */
let keyLookup: number;
let signing: number;
let upstream: number;
/** Control keys, newest first. */
let controlKeys: string[];
/** Happens while a request is signed. */
let whileSigning: (table: KeyTable) => void;
beforeEach(() => {
  [responses, sent, sendOptions, monotonic, keyLookup] = [[responseOf(200)], [], [], 5_000, 0];
  [controlKeys, signing, upstream, whileSigning] = [['new', 'old'], 0, 0, () => {}];
});

/** With the body of the gateway unless it has another one. */
const responseOf = (status: number, body = 'type=async-response\n', headers = {}): GatewayResponse => ({
  status,
  headers: { 'content-type': 'text/html', ...headers },
  body: Buffer.from(body),
});

const unreachable = (): UpstreamError => new UpstreamError('gateway-unreachable', false, false);
const stale = (): UpstreamError => new UpstreamError('gateway-reset', true, true);

interface Sent {
  readonly record: RequestRecord;
  readonly response: GatewayResponse;
}

async function send(target: string, environment: object = {}): Promise<Sent> {
  const metrics = createPrometheus({ version: '0', routes: routesOf() });
  const clocks = { clock: () => noon, monotonic: () => monotonic };
  const { table, keySelector } = fixedKeys(() => {
    monotonic += keyLookup;
    return ringOf(...controlKeys);
  }, clocks);
  const sendUpstream = async (signed: SignedHttpRequest, options: SendOptions): Promise<GatewayResponse> => {
    sent.push(signed);
    sendOptions.push(options);
    monotonic += upstream;
    const next = responses.length > 1 ? responses.shift() : responses[0];
    if (!(next instanceof UpstreamError && !next.written) && !(next instanceof ProxyError))
      options.onConnected?.();
    if (next === undefined || next instanceof Error) throw next ?? new Error('no response');
    return next;
  };
  let nonces = 0;
  const forwarder = new Forwarder({
    keySelector,
    signer: new SigningPool({ concurrency: 1, maxQueue: 1 }, metrics, () => monotonic),
    upstreams: new Map([['sandbox', { send: sendUpstream, drain: () => {} }]]),
    metrics,
    ...clocks,
    nonce: () => {
      nonces += 1;
      monotonic += signing;
      whileSigning(table);
      return `nonce-${nonces}`;
    },
    random: () => 0,
    userAgent: 'countersign/test',
  });
  const config = configSchema.parse(configFor('https://gateway.example', {}, environment));
  const destination = createRoutes(config).resolve(target);
  const { readOnly } = destination.operation;
  const record: RequestRecord = { id: 'request-1', startedAt: 0, attempts: 0, durations: {}, readOnly };
  const form: Pair[] = [['a', 'b c']];
  const request = { record, destination, login: 'acme', form, memory: unlimitedMemory() };
  const response = await forwarder.send(request).catch((error: unknown) => {
    throw error instanceof ProxyError ? withTrueOutcome(error, record) : error;
  });
  return { record, response };
}

async function errorOf(sending: Promise<unknown>): Promise<ProxyError> {
  const error: unknown = await sending.catch((reason: unknown) => reason);
  if (error instanceof ProxyError) return error;
  throw new Error('expected a ProxyError');
}

/** Verifies the only request that was sent. */
function verify(url: string, controlKey: string) {
  const [signed] = sent;
  expect(sent).toHaveLength(1);
  const authorization = signed?.headers['Authorization'];
  const { oauth, form } = verifyAuthorization(
    { method: 'POST', url, authorization, body: signed?.body ?? '' },
    { controlKey },
  );
  expect(form).toEqual([['a', 'b c']]);
  return { host: signed?.headers['Host'], oauth };
}

it.each([
  ['https://GATEWAY.Example:443', 'gateway.example', 'https://gateway.example'],
  ['https://gateway.example:8443', 'gateway.example:8443', 'https://gateway.example:8443'],
  ['https://gateway.example/base/path', 'gateway.example', 'https://gateway.example/base/path'],
  ['http://127.0.0.1:443', '127.0.0.1:443', 'http://127.0.0.1:443'],
  ['http://[::1]:80', '[::1]', 'http://[::1]'],
])('host and signed URL agree for %s', async (baseUrl, host, signedBase) => {
  await send(balance, { baseUrl });
  const verified = verify(`${signedBase}/gw/api/v2/get-balance/manager/acme`, 'new');
  expect(verified.host).toBe(host);
  expect(verified.oauth.get('oauth_timestamp')).toBe(String(noon / 1000));
});

it('the key is the key that the login has when the request is sent: a replaced one is not used', async () => {
  let count = 0;
  whileSigning = (table) => {
    count += 1;
    const ref = { environment: 'sandbox', login: 'acme' };
    if (count === 1) table.store(ref, { ring: ringOf('newest'), gone: [] }, monotonic);
  };
  await send(eligibility);
  const { oauth } = verify('https://gateway.example/gw/api/v2/pan-eligibility/send/1234', 'newest');
  expect(oauth.get('oauth_nonce')).toBe('nonce-2');
});

it.each([
  [false, 'a success', [responseOf(200)]],
  [false, 'a 400 after a rejection', [responseOf(403), responseOf(400)]],
  [true, 'a 403', [responseOf(403)]],
  [undefined, 'the page of a load balancer after one', [responseOf(403), responseOf(503, '<html></html>')]],
])('whether the gateway rejected the key is in the record: %s after %s', async (isRejected, _what, all) => {
  responses = all;
  expect((await send(balance)).record.keyRejected).toBe(isRejected);
});

describe('a retry', () => {
  it('adds to the times of the first attempt, and has what is left of the request', async () => {
    responses = [unreachable(), responseOf(200)];
    [keyLookup, signing, upstream] = [500, 200, 1_000];
    const { record } = await send(balance, { timeouts: { connect: '2s', request: '3s' } });
    expect(record).toMatchObject({ attempts: 2, durations: { key: 0.5, sign: 0.4, gateway: 2 } });
    expect(sendOptions).toMatchObject([
      { connect: 2_000, total: 2_300, dedicatedConnection: false },
      { connect: 1_100, total: 1_100, dedicatedConnection: true },
    ]);
  });

  it('does not happen after the timeout', async () => {
    responses = [unreachable()];
    const timeouts = { connect: '40ms', request: '50ms' };
    expect(await errorOf(send(balance, { timeouts }))).toMatchObject({ reason: 'gateway-unreachable' });
    expect(sent).toHaveLength(1);
  });

  it('does not happen, and neither does the first attempt, if the key took all the time', async () => {
    keyLookup = 100;
    const timeouts = { connect: '40ms', request: '50ms' };
    const error = await errorOf(send(eligibility, { timeouts }));
    const detail = 'Gateway timeout. Nothing was sent; it is safe to send the request again.';
    expect(error).toMatchObject({ reason: 'gateway-timeout', outcome: 'not-sent', detail });
    expect(sent).toEqual([]);
  });

  it('that finds no key leaves the outcome of the attempt before unknown, and does not say "again later"', async () => {
    for (const first of [[stale()], [responseOf(403), stale()]]) {
      responses = [
        ...first,
        new ProxyError('key-source-unavailable', 'Send it again later.', { retryAfter: 5 }),
      ];
      const error = await errorOf(send(balance));
      expect(error).toMatchObject({ reason: 'key-source-unavailable', outcome: 'unknown', headers: {} });
      expect(error.detail).toMatch(/may have reached the gateway\. A query changes nothing, so it is safe /);
    }
  });

  it('of a payment does not happen after its first byte, though its connection was a pooled one', async () => {
    responses = [stale(), responseOf(200)];
    expect(await errorOf(send(eligibility))).toMatchObject({ reason: 'gateway-reset', outcome: 'unknown' });
    expect(sent).toHaveLength(1);
  });

  it.each(['proxy-denied', 'proxy-credentials'] as const)(
    'does not happen after a rejection by the egress proxy, which would decide the same again: %s',
    async (cause) => {
      responses = [new UpstreamError('gateway-unreachable', false, false, { unreachable: cause })];
      const error = await errorOf(send(eligibility));
      expect(error).toMatchObject({ reason: 'gateway-unreachable', outcome: 'not-sent' });
      expect(sent).toHaveLength(1);
    },
  );
});

describe('a gateway 403', () => {
  it('to a query leads to a retry with the other key', async () => {
    responses = [responseOf(403), responseOf(200)];
    const { record, response } = await send(balance);
    expect(response.status).toBe(200);
    expect(record).toMatchObject({
      attempts: 2,
      keyVersion: 1,
      keyKind: 'control_key',
      rejection: 'other-key',
    });
    expect(sendOptions.map(({ dedicatedConnection }) => dedicatedConnection)).toEqual([false, false]);
  });

  it('to a payment is forwarded, with its cause: the clock if that is far from ours', async () => {
    responses = [responseOf(403)];
    const { record, response } = await send(eligibility);
    expect(response.status).toBe(403);
    expect(record).toMatchObject({ attempts: 1, rejection: 'current-key' });
    responses = [responseOf(403, '', { date: new Date(noon + 90_000).toUTCString() })];
    expect((await send(eligibility)).record.rejection).toBe('clock-skew');
    expect(sendOptions.map(({ dedicatedConnection }) => dedicatedConnection)).toEqual([true, true]);
  });

  it('is forwarded if the retry cannot be sent', async () => {
    responses = [responseOf(403), unreachable()];
    const { record, response } = await send(balance);
    expect(response.status).toBe(403);
    expect(record).toMatchObject({ attempts: 4, rejection: 'current-key', keyVersion: 2 });
    controlKeys = ['new', 'old', 'oldest'];
    responses = [responseOf(403), responseOf(403), unreachable()];
    expect((await send(balance)).response.status).toBe(403);
  });

  it('with a large body is destroyed if a response or an unknown outcome replaces it, and kept otherwise', async () => {
    const large = (): GatewayResponse & { rest: IncomingMessage } => ({
      ...responseOf(403),
      rest: new IncomingMessage(new Socket()),
    });
    const [answered, failed, unsent] = [large(), large(), large()];
    responses = [answered, responseOf(200)];
    await send(balance);
    expect(answered.rest.destroyed).toBe(true);
    responses = [failed, new UpstreamError('gateway-timeout', true, false)];
    expect(await errorOf(send(balance))).toMatchObject({ reason: 'gateway-timeout', outcome: 'unknown' });
    expect(failed.rest.destroyed).toBe(true);
    responses = [unsent, unreachable()];
    expect((await send(balance)).response.rest).toBe(unsent.rest);
    expect(unsent.rest.destroyed).toBe(false);
  });
});
