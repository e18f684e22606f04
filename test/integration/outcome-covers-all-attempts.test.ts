import { describe, expect, it } from '@jest/globals';
import {
  always,
  closedUrl,
  type FaultyGateway,
  httpResponse,
  type Script,
} from '../support/faulty-gateway.ts';
import { type HttpResponse, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { type ProxyOptions, type TestProxy, writeKeys } from '../support/service.ts';

const starts = harness();

const lost = /may have been processed.*order status by order ID.*do not send it again/s;

function start(gateway: string, options: ProxyOptions = {}): Promise<TestProxy> {
  return starts.proxy({ gateway, random: () => 0, ...options });
}

/** A gateway that sends one response, reads a second request completely, and then goes down. */
async function startDying(first: string, beforeFirst = (): void => {}): Promise<FaultyGateway> {
  const dying: Script = async ({ request, write, reset }) => {
    await request();
    beforeFirst();
    write(first);
    await request();
    // No connection may succeed after the reset arrives.
    const closed = gateway.close();
    reset();
    await closed;
  };
  const gateway = await starts.gateway([dying]);
  return gateway;
}

/** The outcome is the same in the response, its text, the log and the metrics. */
async function expectOutcome(
  proxy: TestProxy,
  response: HttpResponse,
  expected: string,
  count: number,
): Promise<void> {
  expect(verdict(response)).toBe(expected);
  const [status, reason, outcome = ''] = expected.split(' ');
  expect((await proxy.requestLines(count)).at(-1)).toMatchObject({ status: Number(status), reason, outcome });
  expect(await proxy.counted('request_outcomes_total', { outcome })).toBe(1);
  const { detail } = JSON.parse(response.body);
  if (reason !== 'internal' && outcome === 'unknown') expect(detail).toMatch(lost);
  if (outcome === 'unknown') expect(detail).not.toMatch(/nothing was sent|safe to send/i);
}

describe('the outcome is unknown when', () => {
  it('a request was sent completely on a reused connection, and the next attempt cannot connect', async () => {
    const gateway = await startDying(httpResponse('200 OK', '[]'));
    const proxy = await start(gateway.url);
    expect(await proxy.balance()).toMatchObject({ status: 200 });
    const response = await proxy.balance();
    expect(gateway.requests()).toHaveLength(2);
    await expectOutcome(proxy, response, '502 gateway-unreachable unknown unknown', 2);
  });

  it('the attempt with another key after a 403 was sent completely, and the next one cannot connect', async () => {
    const rotate = (): void => writeKeys(proxy.keysFolder, 'sandbox', 'acme', { controlKey: 'new' });
    const gateway = await startDying(httpResponse('403 Forbidden', '<h1>Access is denied</h1>'), rotate);
    const proxy = await start(gateway.url, { keys: { acme: { controlKey: 'old' } } });
    const response = await proxy.balance();
    expect(gateway.requests()).toHaveLength(2);
    await expectOutcome(proxy, response, '502 gateway-unreachable unknown unknown', 1);
  });

  it('Countersign fails after something was written', async () => {
    const gateway = await startDying(httpResponse('200 OK', '[]'));
    const nonces = ['first', 'second'];
    const proxy = await start(gateway.url, { nonce: () => nonces.shift() ?? fail() });
    expect(await proxy.balance()).toMatchObject({ status: 200 });
    await expectOutcome(proxy, await proxy.balance(), '500 internal unknown unknown', 2);
  });
});

describe('the outcome is not-sent when', () => {
  it('no attempt could connect', async () => {
    const proxy = await start(closedUrl);
    await expectOutcome(proxy, await proxy.transfer(), '502 gateway-unreachable not-sent not-sent', 1);
  });

  it('Countersign fails after attempts that could not connect', async () => {
    const nonces = ['first', 'second'];
    const proxy = await start(closedUrl, { nonce: () => nonces.shift() ?? fail() });
    await expectOutcome(proxy, await proxy.transfer(), '500 internal not-sent not-sent', 1);
    expect((await proxy.requestLines())[0]).toMatchObject({ attempts: 2 });
  });

  it('Countersign fails before the first attempt', async () => {
    const gateway = await starts.gateway([always(httpResponse('200 OK', '[]'))]);
    const proxy = await start(gateway.url, { nonce: fail });
    await expectOutcome(proxy, await proxy.transfer(), '500 internal not-sent not-sent', 1);
    expect(gateway.connections()).toBe(0);
  });
});

function fail(): never {
  throw new TypeError('a bug');
}
