import { createPublicKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { always, httpResponse, once, type RawRequest, type Script } from '../support/faulty-gateway.ts';
import { paths, post, transferForm, verdict } from '../support/forwarding.ts';
import { harness, type Pair } from '../support/harness.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { testControlKey, testPrivateKey } from '../support/service.ts';
import { until } from '../support/until.ts';
import { receivedFromRaw, type VerificationKey, verifyAuthorization } from '../support/verify.ts';

const starts = harness();

const ok = httpResponse('200 OK', '[]');

const startPair = (...scripts: Script[]): Promise<Pair> => starts.pair(scripts, { random: () => 0 });

/** The nonce of a request, whose signature is verified. */
const nonceOf = (request: RawRequest, key: VerificationKey): string | undefined =>
  verifyAuthorization(receivedFromRaw(request), key).oauth.get('oauth_nonce');

const controlKey = { controlKey: testControlKey };
const publicKey = { publicKey: createPublicKey(testPrivateKey) };

describe('a transfer', () => {
  it('always uses a dedicated connection, even if the gateway would keep it open', async () => {
    const { gateway, proxy } = await startPair(always(ok));
    for (let turn = 0; turn < 4; turn += 1) expect(await proxy.transfer()).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(4);
    expect(gateway.requests()).toHaveLength(4);
    expect(new Set(gateway.requests().map((request) => nonceOf(request, publicKey))).size).toBe(4);
  });

  it('announces that its connection will not be reused', async () => {
    const { gateway, proxy } = await startPair(always(ok));
    await proxy.transfer();
    expect(gateway.requests()[0]?.headers).toContainEqual(['Connection', 'close']);
  });

  it('never uses a pooled connection of a status query', async () => {
    const { gateway, proxy } = await startPair(always(ok));
    await proxy.status();
    await proxy.transfer();
    await proxy.status();
    expect(gateway.connections()).toBe(2);
  });
});

describe('an eligibility request', () => {
  it('is sent once if the gateway closes a connection that it could have kept open', async () => {
    const { gateway, proxy } = await startPair(endsOnSecondRequest(), once(''), once(ok));
    const url = `${proxy.url}/sandbox/gw/api/v2/pan-eligibility/send/1234`;
    const form = 'client-order-id=invoice-7&sending-card-ref-id=1';
    expect(await post(url, form)).toMatchObject({ status: 200 });
    expect(verdict(await post(url, form))).toBe('502 gateway-reset unknown unknown');
    expect(gateway.requests()).toHaveLength(2);
  });
});

describe('a read-only operation', () => {
  it('reuses few connections for many requests', async () => {
    const { gateway, proxy } = await startPair(always(ok));
    for (let turn = 0; turn < 20; turn += 1) await proxy.balance();
    await Promise.all(Array.from({ length: 20 }, () => proxy.status()));
    expect(gateway.requests()).toHaveLength(40);
    expect(gateway.connections()).toBeLessThanOrEqual(20);
    await Promise.all(Array.from({ length: 20 }, () => proxy.status()));
    expect(gateway.connections()).toBeLessThanOrEqual(20);
  });

  it.each<[string, (conversation: Parameters<Script>[0]) => void]>([
    ['closes', ({ end }) => end()],
    ['resets', ({ reset }) => reset()],
  ])('loses no request if the gateway %s a pooled connection while it is idle', async (_what, leave) => {
    const idle: Script = async (conversation) => {
      await conversation.request();
      conversation.write(ok);
      setTimeout(() => leave(conversation), 10);
    };
    const { gateway, proxy } = await startPair(idle);
    for (let turn = 0; turn < 10; turn += 1) {
      expect(await proxy.balance()).toMatchObject({ status: 200 });
      // Some requests find the connection closed, others are sent while it closes.
      await new Promise((resolve) => {
        setTimeout(resolve, turn * 2);
      });
    }
    for (const request of gateway.requests()) nonceOf(request, controlKey);
    expect((await proxy.requestLines(10)).every(({ outcome }) => outcome === 'answered')).toBe(true);
  });

  it('on a stale pooled connection is retried once, on a dedicated connection and newly signed', async () => {
    const { gateway, proxy } = await startPair(endsOnSecondRequest(), once(ok));
    await proxy.balance();
    expect(await proxy.balance()).toMatchObject({ status: 200, body: '[]' });
    expect(gateway.connections()).toBe(2);
    const nonces = gateway.requests().map((request) => nonceOf(request, controlKey));
    expect(new Set(nonces).size).toBe(3);
    expect(gateway.requests()[2]?.headers).toContainEqual(['Connection', 'close']);
    const [, line] = await proxy.requestLines(2);
    expect(line).toMatchObject({ attempts: 2, outcome: 'answered', status: 200 });
    expect(line).not.toHaveProperty('reason');
    expect(await proxy.counted('signatures_total', { method: 'HMAC-SHA1' })).toBe(3);
  });

  it('is not sent a third time', async () => {
    const { gateway, proxy } = await startPair(endsOnSecondRequest(), once(''));
    await proxy.balance();
    expect(verdict(await proxy.balance())).toBe('502 gateway-reset unknown unknown');
    expect(gateway.requests()).toHaveLength(3);
  });

  it('that is lost on a new connection is not retried', async () => {
    const { gateway, proxy } = await startPair(once(''));
    expect(verdict(await proxy.balance())).toBe('502 gateway-reset unknown unknown');
    expect(gateway.requests()).toHaveLength(1);
  });

  it('whose response on a pooled connection has begun is not retried', async () => {
    const breaksOff: Script = async ({ request, write, end }) => {
      await request();
      write(ok);
      await request();
      end(httpResponse('200 OK', '[]').slice(0, -1));
    };
    const { gateway, proxy } = await startPair(breaksOff, once(ok));
    await proxy.balance();
    expect(verdict(await proxy.balance())).toBe('502 gateway-reset unknown unknown');
    expect(gateway.requests()).toHaveLength(2);
  });

  it('that times out on a pooled connection is not retried', async () => {
    const forgets: Script = async ({ request, write }) => {
      await request();
      write(ok);
      await request();
    };
    const sandbox = { timeouts: { connect: '1s', request: '1500ms' } };
    const { gateway, proxy } = await starts.pair([forgets, once(ok)], { sandbox, random: () => 0 });
    await proxy.balance();
    expect(verdict(await proxy.balance())).toBe('504 gateway-timeout unknown unknown');
    expect(gateway.requests()).toHaveLength(2);
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

/** Responds to one request and closes the connection at the next one, before any byte of a response. */
function endsOnSecondRequest(): Script {
  return async ({ request, write, end }) => {
    await request();
    write(ok);
    await request();
    end();
  };
}
