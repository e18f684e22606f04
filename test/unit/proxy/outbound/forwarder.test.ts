import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { type Config, configSchema } from '../../../../src/config/schema.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import { parseKeys } from '../../../../src/keys/key.ts';
import type { KeyRing } from '../../../../src/keys/ring.ts';
import { KeySelector } from '../../../../src/keys/selector.ts';
import type { KeyTable } from '../../../../src/keys/table.ts';
import { createPrometheus } from '../../../../src/observability/prometheus.ts';
import { unlimitedMemory } from '../../../../src/proxy/limits.ts';
import { Forwarder } from '../../../../src/proxy/outbound/forwarder.ts';
import type { SendOptions } from '../../../../src/proxy/outbound/upstream-client.ts';
import { UpstreamError } from '../../../../src/proxy/outbound/upstream-error.ts';
import type { GatewayResponse, SignedHttpRequest } from '../../../../src/proxy/outbound/upstream-request.ts';
import { withTrueOutcome } from '../../../../src/proxy/outcome.ts';
import { SigningPool } from '../../../../src/proxy/signing-pool.ts';
import type { RequestRecord } from '../../../../src/request-context.ts';
import { setTimer } from '../../../../src/util/clock.ts';
import { fixedKeys } from '../../../support/fixed-keys.ts';
import { routesOf } from '../../../support/routes.ts';
import { verifyAuthorization } from '../../../support/verify.ts';

const noon = Date.UTC(2026, 0, 15, 12);
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
const responseOf = (
  status: number,
  date?: string,
  body = 'type=async-response\n',
  contentType = 'text/html',
): GatewayResponse => ({
  status,
  headers: { 'content-type': contentType, ...(date === undefined ? {} : { date }) },
  body: Buffer.from(body),
});
const pageOf = (status: number): GatewayResponse => responseOf(status, undefined, '<html></html>');

function ringOf(texts: readonly string[]): KeyRing {
  return texts.flatMap((controlKey, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(noon - 1000) };
    return parseKeys({ control_key: controlKey }, { version: texts.length - index, ...superseded });
  });
}
const unreachable = (): UpstreamError => new UpstreamError('gateway-unreachable', false, false);
const stale = (): UpstreamError => new UpstreamError('gateway-reset', true, true);

function configFor(environment: object): Config {
  return configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw', ...environment } },
    keys: { source: 'directory', directory: '/nowhere' },
  });
}

interface Sent {
  readonly record: RequestRecord;
  readonly response: GatewayResponse;
}

async function send(target: string, environment: object = {}, caller?: string): Promise<Sent> {
  const metrics = createPrometheus({ version: '0', routes: routesOf() });
  const clocks = { clock: () => noon, monotonic: () => monotonic };
  const { table, reader } = fixedKeys(() => {
    monotonic += keyLookup;
    return ringOf(controlKeys);
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
    keySelector: new KeySelector({ ...clocks, table, reader, setTimer, events: metrics }),
    signer: new SigningPool({ concurrency: 1, maxQueue: 1 }, metrics, () => monotonic),
    upstreams: new Map([['sandbox', { send: sendUpstream, drain: () => {} }]]),
    metrics,
    clock: () => noon,
    monotonic: () => monotonic,
    nonce: () => {
      nonces += 1;
      monotonic += signing;
      whileSigning(table);
      return `nonce-${nonces}`;
    },
    random: () => 0,
    userAgent: 'countersign/test',
  });
  const record: RequestRecord = { id: 'request-1', startedAt: 0, attempts: 0, durations: {} };
  if (caller !== undefined) record.caller = caller;
  const memory = unlimitedMemory();
  const destination = createRoutes(configFor(environment)).resolve(target);
  const sending = forwarder.send({
    record,
    destination,
    login: 'acme',
    form: [['a', 'b c']],
    memory,
  });
  const response = await sending.catch((error: unknown) => {
    throw error instanceof ProxyError ? withTrueOutcome(error, record) : error;
  });
  return { record, response };
}

async function errorOf(sending: Promise<unknown>): Promise<ProxyError> {
  const error: unknown = await sending.catch((reason: unknown) => reason);
  if (error instanceof ProxyError) return error;
  throw new Error('expected a ProxyError');
}

const noncesSent = (): (string | undefined)[] =>
  sent.map(({ headers }) => /oauth_nonce="([^"]*)"/.exec(headers['Authorization'] ?? '')?.[1]);

describe('host and signed URL agree', () => {
  it.each([
    ['https://gateway.example', 'gateway.example', 'https://gateway.example'],
    ['https://gateway.example:443', 'gateway.example', 'https://gateway.example'],
    ['https://GATEWAY.Example:443', 'gateway.example', 'https://gateway.example'],
    ['https://gateway.example:8443', 'gateway.example:8443', 'https://gateway.example:8443'],
    ['https://gateway.example/base/path', 'gateway.example', 'https://gateway.example/base/path'],
    ['http://127.0.0.1:80', '127.0.0.1', 'http://127.0.0.1'],
    ['http://127.0.0.1:443', '127.0.0.1:443', 'http://127.0.0.1:443'],
    ['http://[::1]:8080', '[::1]:8080', 'http://[::1]:8080'],
  ])('for %s', async (baseUrl, host, signedBase) => {
    await send(balance, { baseUrl });
    const [signed] = sent;
    expect(signed?.headers['Host']).toBe(host);
    const received = {
      method: 'POST',
      url: `${signedBase}/gw/api/v2/get-balance/manager/acme`,
      authorization: signed?.headers['Authorization'],
      body: signed?.body ?? '',
    };
    const { oauth, form } = verifyAuthorization(received, { controlKey: 'new' });
    expect(oauth.get('oauth_timestamp')).toBe(String(noon / 1000));
    expect(form).toEqual([['a', 'b c']]);
  });
});

describe('the key', () => {
  it('is the key that the login has when the request is sent: a replaced one is not used', async () => {
    let count = 0;
    whileSigning = (table) => {
      count += 1;
      const ref = { environment: 'sandbox', login: 'acme' };
      if (count === 1) table.store(ref, { ring: ringOf(['newest']), gone: [] }, monotonic);
    };
    await send(eligibility);
    expect(noncesSent()).toEqual(['nonce-2']);
    const [signed] = sent;
    const received = {
      method: 'POST',
      url: 'https://gateway.example/gw/api/v2/pan-eligibility/send/1234',
      authorization: signed?.headers['Authorization'],
      body: signed?.body ?? '',
    };
    expect(verifyAuthorization(received, { controlKey: 'newest' }).form).toEqual([['a', 'b c']]);
  });
});

describe('whether the gateway rejected the key', () => {
  it.each([
    [false, 'a success', [responseOf(200)]],
    [false, 'an error', [responseOf(200, undefined, 'type=error\n')]],
    [false, 'a 400 after a rejection', [responseOf(403), responseOf(400)]],
    [true, 'a 403', [responseOf(403)]],
    [true, 'a 401', [responseOf(401)]],
    [false, 'a 400', [responseOf(400)]],
    [undefined, 'the page of a load balancer', [pageOf(200)]],
    [undefined, 'a rate limit', [responseOf(429)]],
    [undefined, 'the page of a load balancer after a rejection', [responseOf(403), pageOf(503)]],
  ])('is in the record as keyRejected: %s after %s', async (isRejected, _what, all) => {
    responses = all;
    expect((await send(balance)).record.keyRejected).toBe(isRejected);
  });
});

describe('a retry', () => {
  it('adds to the times of the first attempt, and has what is left of the request', async () => {
    responses = [unreachable(), responseOf(200)];
    [keyLookup, signing, upstream] = [500, 200, 1_000];
    const { record } = await send(balance, { timeouts: { connect: '2s', request: '3s' } });
    expect(record.durations).toEqual({ key: 0.5, sign: 0.4, gateway: 2 });
    expect(sendOptions.map(({ connect, total }) => [connect, total])).toEqual([
      [2_000, 2_300],
      [1_100, 1_100],
    ]);
  });

  it.each([balance, eligibility])(
    'happens at most twice after a failed connection, newly signed: %s',
    async (target) => {
      responses = [unreachable()];
      const error = await errorOf(send(target));
      expect(error).toMatchObject({ reason: 'gateway-unreachable', outcome: 'not-sent' });
      expect(noncesSent()).toEqual(['nonce-1', 'nonce-2', 'nonce-3']);
    },
  );

  it('uses a dedicated connection', async () => {
    responses = [unreachable(), responseOf(200)];
    const { record } = await send(balance);
    expect(sendOptions.map(({ dedicatedConnection }) => dedicatedConnection)).toEqual([false, true]);
    expect(record.attempts).toBe(2);
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

  it('happens once for a read-only request on a stale pooled connection, and never for a payment', async () => {
    responses = [stale()];
    expect(await errorOf(send(balance))).toMatchObject({ reason: 'gateway-reset', outcome: 'unknown' });
    expect(sent).toHaveLength(2);
    sent = [];
    expect(await errorOf(send(eligibility))).toMatchObject({ reason: 'gateway-reset', outcome: 'unknown' });
    expect(sent).toHaveLength(1);
  });

  it.each([
    ['cannot connect', unreachable],
    ['is overloaded', () => new ProxyError('overloaded', 'Too many.', { retryAfter: 1 })],
    ['is stopped', () => new ProxyError('shutting-down', 'Shutting down; nothing was sent.')],
    ['has no key', () => new ProxyError('key-source-unavailable', 'Send it again later.', { retryAfter: 5 })],
  ])('leaves the outcome unknown if the first attempt was sent and the second %s', async (_, second) => {
    for (const first of [[stale()], [responseOf(403), stale()]]) {
      responses = [...first, second()];
      const error = await errorOf(send(balance));
      expect(error).toMatchObject({ reason: second().reason, outcome: 'unknown', headers: {} });
      expect(error.detail).toMatch(/may have been processed.*do not send it again/s);
      expect(error.detail).not.toMatch(/again later|nothing was sent/i);
    }
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

  it('never happens after any other failure', async () => {
    for (const reason of ['gateway-timeout', 'gateway-reset', 'gateway-reply-invalid'] as const) {
      responses = [new UpstreamError(reason, true, false)];
      expect(await errorOf(send(balance))).toMatchObject({ reason, outcome: 'unknown' });
    }
    expect(sent).toHaveLength(3);
  });
});

describe('a gateway 403', () => {
  it('to a read-only request leads to a retry with the other key', async () => {
    responses = [responseOf(403), responseOf(200)];
    const { record, response } = await send(balance);
    expect(response.status).toBe(200);
    expect(record).toMatchObject({ attempts: 2, keyVersion: 1, keyKind: 'control_key' });
    expect(record.rejection).toBe('other-key');
    expect(noncesSent()).toEqual(['nonce-1', 'nonce-2']);
  });

  it('to a payment is forwarded', async () => {
    responses = [responseOf(403)];
    const { record, response } = await send(eligibility);
    expect(response.status).toBe(403);
    expect(record).toMatchObject({ attempts: 1, rejection: 'current-key' });
  });

  it('to a payment leads to a retry with the other key if configured', async () => {
    responses = [responseOf(403), responseOf(200)];
    const operations = { 'pan-eligibility-send': { retryOn403: true } };
    expect((await send(eligibility, { operations })).response.status).toBe(200);
    expect(sendOptions.map(({ dedicatedConnection }) => dedicatedConnection)).toEqual([true, true]);
  });

  it('is forwarded if the retry cannot be sent', async () => {
    responses = [responseOf(403), unreachable()];
    const { record, response } = await send(balance);
    expect(response.status).toBe(403);
    expect(record).toMatchObject({ attempts: 4, rejection: 'current-key' });
    controlKeys = ['new', 'old', 'oldest'];
    responses = [responseOf(403), responseOf(403), unreachable()];
    expect((await send(balance)).response.status).toBe(403);
  });

  it('is replaced by the unknown outcome of the retry', async () => {
    responses = [responseOf(403), new UpstreamError('gateway-timeout', true, false)];
    expect(await errorOf(send(balance))).toMatchObject({ reason: 'gateway-timeout', outcome: 'unknown' });
  });

  it('with a large body is destroyed if another response replaces it, and kept otherwise', async () => {
    const large = (): GatewayResponse & { rest: IncomingMessage } => ({
      ...responseOf(403),
      rest: new IncomingMessage(new Socket()),
    });
    const [answered, failed, unsent] = [large(), large(), large()];
    responses = [answered, responseOf(200)];
    await send(balance);
    expect(answered.rest.destroyed).toBe(true);
    responses = [failed, new UpstreamError('gateway-timeout', true, false)];
    await errorOf(send(balance));
    expect(failed.rest.destroyed).toBe(true);
    responses = [unsent, unreachable()];
    expect((await send(balance)).response.rest).toBe(unsent.rest);
    expect(unsent.rest.destroyed).toBe(false);
  });

  it('with a clock far from ours is reported as clock skew', async () => {
    responses = [responseOf(403, new Date(noon + 90_000).toUTCString())];
    expect((await send(eligibility)).record.rejection).toBe('clock-skew');
  });
});
