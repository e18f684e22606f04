import { createPublicKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { always, httpResponse, once, type RawRequest, type Script } from '../support/faulty-gateway.ts';
import { paths, transferForm, verdict } from '../support/forwarding.ts';
import { harness, type Pair } from '../support/harness.ts';
import { formRequest, type RawConnection } from '../support/raw-http.ts';
import { testControlKey, testPrivateKey } from '../support/service.ts';
import { until } from '../support/until.ts';
import { receivedFromRaw, type VerificationKey, verifyAuthorization } from '../support/verify.ts';

const starts = harness();

const ok = httpResponse('200 OK', '[]');
const reset = '502 gateway-reset unknown unknown';

const startPair = (...scripts: Script[]): Promise<Pair> => starts.pair(scripts, { random: () => 0 });

/** Responds to one request, and ends the connection with this at the next one. */
const atSecond =
  (react: Script): Script =>
  async (conversation) => {
    await conversation.request();
    conversation.write(ok);
    await conversation.request();
    await react(conversation);
  };
const endsOnSecondRequest = atSecond(({ end }) => end());

/** The nonces of requests, whose signatures are verified. */
const noncesOf = (requests: readonly RawRequest[], key: VerificationKey) =>
  new Set(
    requests.map((request) => verifyAuthorization(receivedFromRaw(request), key).oauth.get('oauth_nonce')),
  );
const controlKey = { controlKey: testControlKey };
const publicKey = { publicKey: createPublicKey(testPrivateKey) };

describe('a transfer', () => {
  it('always uses a connection of its own, never one of a query, even if the gateway would keep it open', async () => {
    const { gateway, proxy } = await startPair(always(ok));
    expect(await proxy.status()).toMatchObject({ status: 200 });
    for (let turn = 0; turn < 4; turn += 1) expect(await proxy.transfer()).toMatchObject({ status: 200 });
    expect(await proxy.status()).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(5);
    const transfers = gateway.requests().slice(1, -1);
    expect(noncesOf(transfers, publicKey).size).toBe(4);
    for (const { headers } of transfers) expect(headers).toContainEqual(['Connection', 'close']);
  });
});

it('an eligibility request is sent once if the gateway closes a connection that it could have kept open', async () => {
  const { gateway, proxy } = await startPair(endsOnSecondRequest, once(''), once(ok));
  const path = '/sandbox/gw/api/v2/pan-eligibility/send/1234';
  const form = 'client-order-id=invoice-7&sending-card-ref-id=1';
  expect(await proxy.post(path, form)).toMatchObject({ status: 200 });
  expect(verdict(await proxy.post(path, form))).toBe(reset);
  expect(gateway.requests()).toHaveLength(2);
});

describe('a read-only operation', () => {
  it('on a stale pooled connection is retried once, on a dedicated connection and newly signed', async () => {
    const { gateway, proxy } = await startPair(endsOnSecondRequest, once(ok));
    await proxy.balance();
    const response = await proxy.balance();
    expect(response).toMatchObject({ status: 200, body: '[]' });
    expect(gateway.connections()).toBe(2);
    expect(noncesOf(gateway.requests(), controlKey).size).toBe(3);
    expect(gateway.requests()[2]?.headers).toContainEqual(['Connection', 'close']);
    const line = await proxy.lineOf(response);
    expect(line).toMatchObject({ attempts: 2, outcome: 'answered', status: 200 });
    expect(line).not.toHaveProperty('reason');
    expect(await proxy.counted('signing_duration_seconds_count', { method: 'HMAC-SHA1' })).toBe(3);
  });

  it.each<[string, number, ...Script[]]>([
    ['whose second attempt is lost too', 3, endsOnSecondRequest, once('')],
    ['whose response on a pooled connection has begun', 2, atSecond(({ end }) => end(ok.slice(0, -1)))],
  ])('%s is not sent again', async (_what, sent, ...scripts) => {
    const { gateway, proxy } = await startPair(...scripts, once(ok));
    await proxy.balance();
    expect(verdict(await proxy.balance())).toBe(reset);
    expect(gateway.requests()).toHaveLength(sent);
  });

  it('that is lost on a new connection, or times out on a pooled one, is not sent again', async () => {
    const lost = await startPair(once(''), once(ok));
    expect(verdict(await lost.proxy.balance())).toBe(reset);
    expect(lost.gateway.requests()).toHaveLength(1);
    const sandbox = { timeouts: { connect: '1s', request: '1s' } };
    const late = await starts.pair([atSecond(() => {}), once(ok)], { sandbox, random: () => 0 });
    await late.proxy.balance();
    expect(verdict(await late.proxy.balance())).toBe('504 gateway-timeout unknown unknown');
    expect(late.gateway.requests()).toHaveLength(2);
  });
});

describe('a client that disconnects', () => {
  it('does not abort a transfer: the gateway gets it completely, and its outcome is recorded', async () => {
    const responding = Promise.withResolvers<void>();
    const slow: Script = async ({ request, end }) => {
      await request();
      responding.resolve();
      setTimeout(() => end(ok), 100);
    };
    const { gateway, proxy } = await startPair(slow);
    const caller = (await proxy.connect()).send(formRequest(paths.transfer, transferForm));
    await responding.promise;
    caller.close();
    const [line] = await proxy.requestLines();
    expect(line).toMatchObject({ status: 200, outcome: 'answered', attempts: 1, gatewayStatus: 200 });
    expect(gateway.requests()).toHaveLength(1);
    await until(async () => (await proxy.counted('requests_in_flight')) === 0);
  });

  it('before the upstream request is sent does not abort it either', async () => {
    let caller: RawConnection | undefined;
    const nonce = (): string => {
      caller?.close();
      return 'nonce';
    };
    const { gateway, proxy } = await starts.pair([once(ok)], { nonce });
    caller = (await proxy.connect()).send(formRequest(paths.transfer, transferForm));
    expect(await caller.gone()).toBe('closed');
    expect((await proxy.requestLines())[0]).toMatchObject({ outcome: 'answered', status: 200 });
    expect(gateway.requests()).toHaveLength(1);
  });
});
