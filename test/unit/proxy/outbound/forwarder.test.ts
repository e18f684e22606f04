import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type Config, configSchema } from '../../../../src/config/schema.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { createRouter } from '../../../../src/gateway/router.ts';
import { parseKeys } from '../../../../src/keys/key.ts';
import { KeySelector } from '../../../../src/keys/key-selector.ts';
import { createPrometheus } from '../../../../src/observability/prometheus.ts';
import { unlimitedMemory } from '../../../../src/proxy/memory-budget.ts';
import { Forwarder } from '../../../../src/proxy/outbound/forwarder.ts';
import type { SendOptions } from '../../../../src/proxy/outbound/upstream-client.ts';
import {
  type GatewayResponse,
  type SignedHttpRequest,
  UpstreamError,
} from '../../../../src/proxy/outbound/upstream-request.ts';
import { withTrueOutcome } from '../../../../src/proxy/outcome.ts';
import { SigningPool } from '../../../../src/proxy/signing-pool.ts';
import { createUpstreamRecord, type UpstreamRecord } from '../../../../src/request-context.ts';
import { verifyAuthorization } from '../../../support/verify.ts';

const noon = Date.UTC(2026, 0, 15, 12);
const balance = '/sandbox/gw/api/v2/get-balance/manager/acme';
const eligibility = '/sandbox/gw/api/v2/pan-eligibility/send/1234';

/** What the gateway does with one request after the other; the last one is for all further ones. */
let replies: (GatewayResponse | Error)[];
let posts: SignedHttpRequest[];
let passages: SendOptions[];
let monotonic: number;
beforeEach(() => {
  [replies, posts, passages, monotonic] = [[replyOf(200)], [], [], 5_000];
});

const replyOf = (status: number, date?: string): GatewayResponse => ({
  status,
  headers: date === undefined ? {} : { date },
  body: Buffer.alloc(0),
});
const refused = (): UpstreamError => new UpstreamError('gateway-unreachable', false, false);
const stale = (): UpstreamError => new UpstreamError('gateway-reset', true, true);

function configFor(environment: object): Config {
  return configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw', ...environment } },
    keys: { source: 'directory', directory: '/nowhere' },
  });
}

interface Sent {
  readonly record: UpstreamRecord;
  readonly reply: GatewayResponse;
}

async function send(target: string, environment: object = {}): Promise<Sent> {
  const ring = [
    ...parseKeys({ control_key: 'new' }, { version: 2 }),
    ...parseKeys({ control_key: 'old' }, { version: 1, supersededAt: new Date(noon - 1000) }),
  ];
  const meter = createPrometheus({ version: '0', environments: {}, callers: [] });
  const keys = { get: async () => ring, refresh: async () => ring };
  const forward = async (post: SignedHttpRequest, passage: SendOptions): Promise<GatewayResponse> => {
    posts.push(post);
    passages.push(passage);
    const next = replies.length > 1 ? replies.shift() : replies[0];
    if (!(next instanceof UpstreamError && !next.written) && !(next instanceof ProxyError))
      passage.onConnected?.();
    if (next === undefined || next instanceof Error) throw next ?? new Error('no reply');
    return next;
  };
  let nonces = 0;
  const sender = new Forwarder({
    keySelector: new KeySelector({
      keys,
      metrics: meter,
      clock: () => noon,
      monotonic: () => monotonic,
      wait: () => new Promise(() => {}),
      rotationGracePeriod: 86_400_000,
    }),
    signer: new SigningPool({ concurrency: 1, maxQueue: 1 }, meter, () => monotonic),
    upstreams: new Map([['sandbox', { send: forward, drain: () => {} }]]),
    metrics: meter,
    clock: () => noon,
    monotonic: () => monotonic,
    nonce: () => {
      nonces += 1;
      return `nonce-${nonces}`;
    },
    random: () => 0,
    userAgent: 'countersign/test',
  });
  const record = createUpstreamRecord();
  const memory = unlimitedMemory().reservation();
  const destination = createRouter(configFor(environment))(target);
  const sending = sender.send({ record, destination, login: 'acme', form: [['a', 'b c']], memory });
  const reply = await sending.catch((error: unknown) => {
    throw error instanceof ProxyError ? withTrueOutcome(error, record) : error;
  });
  return { record, reply };
}

async function refusalOf(sending: Promise<unknown>): Promise<ProxyError> {
  const error: unknown = await sending.catch((reason: unknown) => reason);
  if (error instanceof ProxyError) return error;
  throw new Error('not refused');
}

const noncesSent = (): (string | undefined)[] =>
  posts.map(({ headers }) => /oauth_nonce="([^"]*)"/.exec(headers['Authorization'] ?? '')?.[1]);

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
    const [post] = posts;
    expect(post?.headers['Host']).toBe(host);
    const received = {
      method: 'POST',
      url: `${signedBase}/gw/api/v2/get-balance/manager/acme`,
      authorization: post?.headers['Authorization'],
      body: post?.body ?? '',
    };
    const { oauth, form } = verifyAuthorization(received, { controlKey: 'new' });
    expect(oauth.get('oauth_timestamp')).toBe(String(noon / 1000));
    expect(form).toEqual([['a', 'b c']]);
  });
});

it('the timeout of the key look-up is cancelled when the key is there', async () => {
  jest.useFakeTimers();
  try {
    await send(balance);
    expect(jest.getTimerCount()).toBe(0);
  } finally {
    jest.useRealTimers();
  }
});

describe('sending again', () => {
  it.each([balance, eligibility])('twice at most after no connection, newly signed: %s', async (target) => {
    replies = [refused()];
    const refusal = await refusalOf(send(target));
    expect(refusal).toMatchObject({ reason: 'gateway-unreachable', outcome: 'not-sent' });
    expect(noncesSent()).toEqual(['nonce-1', 'nonce-2', 'nonce-3']);
  });

  it('uses connections of its own', async () => {
    replies = [refused(), replyOf(200)];
    const { record } = await send(balance);
    expect(passages.map(({ dedicatedConnection }) => dedicatedConnection)).toEqual([false, true]);
    expect(record.attempts).toBe(2);
  });

  it('does not happen when the time is over', async () => {
    replies = [refused()];
    const timeouts = { connect: '40ms', request: '50ms' };
    expect(await refusalOf(send(balance, { timeouts }))).toMatchObject({ reason: 'gateway-unreachable' });
    expect(posts).toHaveLength(1);
  });

  it('once for a read whose pooled connection was stale, and not for a payment', async () => {
    replies = [stale()];
    expect(await refusalOf(send(balance))).toMatchObject({ reason: 'gateway-reset', outcome: 'unknown' });
    expect(posts).toHaveLength(2);
    posts = [];
    expect(await refusalOf(send(eligibility))).toMatchObject({ reason: 'gateway-reset', outcome: 'unknown' });
    expect(posts).toHaveLength(1);
  });

  it.each([
    ['cannot connect', refused],
    ['is overloaded', () => new ProxyError('overloaded', 'Too many.', { retryAfter: 1 })],
    ['is stopped', () => new ProxyError('shutting-down', 'This instance has stopped.')],
    ['has no key', () => new ProxyError('key-source-unavailable', 'Send it again later.', { retryAfter: 5 })],
  ])(
    'leaves the outcome unknown when the first attempt wrote something and the second %s',
    async (_, second) => {
      for (const first of [[stale()], [replyOf(403), stale()]]) {
        replies = [...first, second()];
        const refusal = await refusalOf(send(balance));
        expect(refusal).toMatchObject({ reason: second().reason, outcome: 'unknown', headers: {} });
        expect(refusal.detail).toMatch(/may have been processed.*do not resubmit/s);
        expect(refusal.detail).not.toMatch(/again later|nothing was sent/i);
      }
    },
  );

  it('never on anything else', async () => {
    for (const reason of ['gateway-timeout', 'gateway-reset', 'gateway-reply-invalid'] as const) {
      replies = [new UpstreamError(reason, true, false)];
      expect(await refusalOf(send(balance))).toMatchObject({ reason, outcome: 'unknown' });
    }
    expect(posts).toHaveLength(3);
  });
});

describe('a refusal by the gateway', () => {
  it('of a read is answered with the other key', async () => {
    replies = [replyOf(403), replyOf(200)];
    const { record, reply } = await send(balance);
    expect(reply.status).toBe(200);
    expect(record).toMatchObject({ attempts: 2, keyVersion: 1, keyKind: 'control_key' });
    expect(record.rejection).toBe('other-key');
    expect(noncesSent()).toEqual(['nonce-1', 'nonce-2']);
  });

  it('of a payment is passed on', async () => {
    replies = [replyOf(403)];
    const { record, reply } = await send(eligibility);
    expect(reply.status).toBe(403);
    expect(record).toMatchObject({ attempts: 1, rejection: 'current-key' });
  });

  it('of a payment is answered with the other key where configuration says so', async () => {
    replies = [replyOf(403), replyOf(200)];
    const operations = { 'pan-eligibility-send': { retryOn403: true } };
    expect((await send(eligibility, { operations })).reply.status).toBe(200);
    expect(passages.map(({ dedicatedConnection }) => dedicatedConnection)).toEqual([true, true]);
  });

  it('stays the answer when the second request cannot be sent', async () => {
    replies = [replyOf(403), refused()];
    const { record, reply } = await send(balance);
    expect(reply.status).toBe(403);
    expect(record).toMatchObject({ attempts: 4, rejection: 'current-key' });
  });

  it('gives way to an unknown outcome of the second request', async () => {
    replies = [replyOf(403), new UpstreamError('gateway-timeout', true, false)];
    expect(await refusalOf(send(balance))).toMatchObject({ reason: 'gateway-timeout', outcome: 'unknown' });
  });

  it('too large to be held is let go when something else takes its place, and else is still there', async () => {
    const large = (): GatewayResponse & { rest: IncomingMessage } => ({
      ...replyOf(403),
      rest: new IncomingMessage(new Socket()),
    });
    const [answered, failed, unsent] = [large(), large(), large()];
    replies = [answered, replyOf(200)];
    await send(balance);
    expect(answered.rest.destroyed).toBe(true);
    replies = [failed, new UpstreamError('gateway-timeout', true, false)];
    await refusalOf(send(balance));
    expect(failed.rest.destroyed).toBe(true);
    replies = [unsent, refused()];
    expect((await send(balance)).reply.rest).toBe(unsent.rest);
    expect(unsent.rest.destroyed).toBe(false);
  });

  it('with a clock that is far from ours is suspected to be about that', async () => {
    replies = [replyOf(403, new Date(noon + 90_000).toUTCString())];
    expect((await send(eligibility)).record.rejection).toBe('clock-skew');
  });
});
