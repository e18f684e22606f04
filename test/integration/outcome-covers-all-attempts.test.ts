import { afterEach, describe, expect, it } from '@jest/globals';
import {
  always,
  closedPort,
  type FaultyGateway,
  reply,
  type Script,
  startFaultyGateway,
} from '../support/faulty-gateway.ts';
import { type Answer, askBalance, counted, exchanges, transfer, verdict } from '../support/forwarding.ts';
import { type ProxyOptions, startProxy, type TestProxy, writeKeys } from '../support/service.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

const lost = /may have been processed.*order status by order ID.*do not resubmit/s;

async function start(gateway: string, options: Partial<ProxyOptions> = {}): Promise<TestProxy> {
  const sandbox = { timeouts: { connect: '300ms', request: '1s' } };
  const proxy = await startProxy({ gateway, sandbox, random: () => 0, ...options });
  stops.push(() => proxy.stop());
  return proxy;
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
  const gateway = await startFaultyGateway([dying]);
  stops.push(gateway.close);
  return gateway;
}

/** The outcome is the same in the response, its text, the log and the metrics. */
async function expectOutcome(
  proxy: TestProxy,
  answer: Answer,
  expected: string,
  count: number,
): Promise<void> {
  expect(verdict(answer)).toBe(expected);
  const [status, reason, outcome = ''] = expected.split(' ');
  expect((await exchanges(proxy, count)).at(-1)).toMatchObject({ status: Number(status), reason, outcome });
  expect(await counted(proxy, 'request_outcomes_total', { outcome })).toBe(1);
  const { detail } = JSON.parse(answer.body);
  if (reason !== 'internal' && outcome === 'unknown') expect(detail).toMatch(lost);
  if (outcome === 'unknown') expect(detail).not.toMatch(/nothing was sent|safe to send/i);
}

describe('the outcome is unknown when', () => {
  it('a request was sent completely on a reused connection, and the next attempt cannot connect', async () => {
    const gateway = await startDying(reply('200 OK', '[]'));
    const proxy = await start(gateway.url);
    expect(await askBalance(proxy)).toMatchObject({ status: 200 });
    const answer = await askBalance(proxy);
    expect(gateway.requests()).toHaveLength(2);
    await expectOutcome(proxy, answer, '502 gateway-unreachable unknown unknown', 2);
  });

  it('the attempt with another key after a 403 was sent completely, and the next one cannot connect', async () => {
    const rotate = (): void => writeKeys(proxy.keysFolder, 'sandbox', 'acme', { controlKey: 'new' });
    const gateway = await startDying(reply('403 Forbidden', '<h1>Access is denied</h1>'), rotate);
    const proxy = await start(gateway.url, { keys: { acme: { controlKey: 'old' } } });
    const answer = await askBalance(proxy);
    expect(gateway.requests()).toHaveLength(2);
    await expectOutcome(proxy, answer, '502 gateway-unreachable unknown unknown', 1);
  });

  it('Countersign fails after something was written', async () => {
    const gateway = await startDying(reply('200 OK', '[]'));
    const nonces = ['first', 'second'];
    const proxy = await start(gateway.url, { nonce: () => nonces.shift() ?? fail() });
    expect(await askBalance(proxy)).toMatchObject({ status: 200 });
    await expectOutcome(proxy, await askBalance(proxy), '500 internal unknown unknown', 2);
  });
});

describe('the outcome is not-sent when', () => {
  const nowhere = `http://127.0.0.1:${closedPort}`;

  it('no attempt could connect', async () => {
    const proxy = await start(nowhere);
    await expectOutcome(proxy, await transfer(proxy), '502 gateway-unreachable not-sent not-sent', 1);
  });

  it('Countersign fails after attempts that could not connect', async () => {
    const nonces = ['first', 'second'];
    const proxy = await start(nowhere, { nonce: () => nonces.shift() ?? fail() });
    await expectOutcome(proxy, await transfer(proxy), '500 internal not-sent not-sent', 1);
    expect((await exchanges(proxy))[0]).toMatchObject({ attempts: 2 });
  });

  it('Countersign fails before the first attempt', async () => {
    const gateway = await startFaultyGateway([always(reply('200 OK', '[]'))]);
    stops.push(gateway.close);
    const proxy = await start(gateway.url, { nonce: fail });
    await expectOutcome(proxy, await transfer(proxy), '500 internal not-sent not-sent', 1);
    expect(gateway.connections()).toBe(0);
  });
});

function fail(): never {
  throw new TypeError('a defect');
}
