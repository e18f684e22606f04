import type { TlsOptions } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startEgressProxy } from '../support/egress-proxy.ts';
import { type Conversation, type FaultyGateway, httpResponse } from '../support/faulty-gateway.ts';
import { Folder } from '../support/folder.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { startRelay } from '../support/relay.ts';
import { describeWith } from '../support/requires.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** A server that responds with what was asked for, and can repeat the last response on every open connection. */
async function startServer(tls?: TlsOptions): Promise<FaultyGateway & { readonly repeat: () => void }> {
  const last = new Map<Conversation, string>();
  const script = async (conversation: Conversation): Promise<void> => {
    // Otherwise the kernel delays a second response until the first one is acknowledged.
    conversation.socket.setNoDelay(true);
    for (;;) {
      const request = await conversation.request();
      if (request === undefined) return;
      const response = httpResponse('200 OK', new URLSearchParams(request.body).get('balance-name') ?? '');
      last.set(conversation, response);
      conversation.write(response);
    }
  };
  const repeat = (): void => {
    for (const [{ socket, write }, response] of last) if (socket.writable) write(response);
  };
  return { ...(await starts.gateway([script], tls)), repeat };
}

interface Proxy extends TestProxy {
  /** Called while a request is signed: after the event loop has polled, before the request is written. */
  beforeSending: () => void;
}

async function start(gateway: string, sandbox: ProxyOptions['sandbox'] = {}): Promise<Proxy> {
  let proxy: Proxy | undefined;
  const nonce = (): string => {
    proxy?.beforeSending();
    return 'nonce';
  };
  const started = await starts.proxy({ gateway, nonce, sandbox });
  proxy = { ...started, beforeSending: () => {} };
  return proxy;
}

async function send(proxy: TestProxy, name: string): Promise<string> {
  return (await proxy.post(paths.balance, `balance-name=${name}`)).body;
}

/** Repeats twenty concurrent requests; returns those that got the response to another one. */
async function crossed(proxy: Proxy, rounds: number, repeat: () => void): Promise<string[]> {
  const wrong: string[] = [];
  for (let round = 0; round < rounds; round += 1) {
    proxy.beforeSending = () => {
      proxy.beforeSending = () => {};
      repeat();
    };
    const names = Array.from({ length: 20 }, (_, index) => `${round}-${index}`);
    const bodies = await Promise.all(names.map((name) => send(proxy, name)));
    wrong.push(
      ...names.flatMap((name, index) => (bodies[index] === name ? [] : [`${name} got ${bodies[index]}`])),
    );
  }
  return wrong;
}

describe('a surplus response of the gateway', () => {
  it('that the event loop has not read yet does not become the response to the next request', async () => {
    const gateway = await startServer();
    const proxy = await start(gateway.url);
    expect(await crossed(proxy, 10, gateway.repeat)).toEqual([]);
    expect(await proxy.counted('requests_total', { status: '200' })).toBe(200);
  });

  it('has no connection to arrive on if keepAlive is false', async () => {
    const gateway = await startServer();
    const proxy = await start(gateway.url, { keepAlive: false });
    for (const name of ['a', 'b', 'c']) expect(await send(proxy, name)).toBe(name);
    expect(gateway.connections()).toBe(3);
    for (const { headers } of gateway.requests()) expect(headers).toContainEqual(['Connection', 'close']);
  });
});

describeWith('openssl')('a surplus response over TLS (needs the program openssl)', () => {
  const folder = new Folder();
  let certificate: Issued;
  let caFile: string;
  beforeAll(() => {
    const ca = new Ca(folder.path, 'ca');
    [caFile, certificate] = [ca.file, ca.issue('gateway')];
  });
  afterAll(() => folder.remove());

  it.each([
    ['', undefined],
    [', through an egress proxy', 'http'],
    [', through an egress proxy with TLS to it', 'https'],
  ])(
    'does not become the response to the next request, also if only a part of its TLS record has arrived%s',
    async (_, egress) => {
      const gateway = await startServer(certificate);
      const ofEgress = egress === 'https' ? certificate : undefined;
      const hop = egress === undefined ? gateway : starts.closing(await startEgressProxy(ofEgress));
      const relay = starts.closing(await startRelay(hop.port));
      const url = `${egress ?? 'https'}://127.0.0.1:${relay.port}`;
      const egressProxy = { url, ...(ofEgress && { caFile }) };
      const proxy = await (egress === undefined
        ? start(url, { caFile })
        : start(gateway.url, { caFile, egressProxy }));
      for (const name of ['a', 'b']) expect(await send(proxy, name)).toBe(name);
      expect(relay.connections()).toBe(1);
      relay.hold();
      gateway.repeat();
      await until(() => relay.held() > 0);
      proxy.beforeSending = () => relay.releaseAllBut(10);
      expect(await send(proxy, 'c')).toBe('c');
      expect(relay.connections()).toBe(2);
    },
  );
});
