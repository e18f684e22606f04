import { expect, it } from '@jest/globals';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { limitMemory, peakMemory } from '../support/memory-limit.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const starts = harness();

it('300 clients with responses of 1 to 5 MB stay within 384 MiB', async () => {
  const limit = 384 * 1_048_576;
  const gateway = await starts.recordingGateway();
  const process = await starts.process({
    gateway: gateway.url,
    config: {
      proxy: { port: 0, timeouts: { body: '2m', shutdownDelay: '0s' } },
      signing: { maxQueue: 1000 },
    },
    sandbox: { timeouts: { request: '2m' } },
  });
  const group = limitMemory(limit);
  if (group === undefined) console.warn('No control group may be made here: only the peak is measured.');
  const pid = process.child.pid ?? 0;
  group?.add(pid);
  starts.atEnd(() => process.ended.then(() => group?.remove()));
  // Its keys are read once, before all of them come at once.
  expect((await process.transfer()).status).toBe(200);
  let served = 0;
  gateway.respond = (response) => {
    served += 1;
    response.end(Buffer.alloc(1_000_000 * (1 + (served % 5))));
  };
  const responses = await Promise.all(
    Array.from({ length: 300 }, async () => {
      const { status, body, complete } = await process.post(paths.transfer, 'client_orderid=1');
      return `${status} ${complete} ${body.length >= 1_000_000}`;
    }),
  );
  expect(new Set(responses)).toEqual(new Set(['200 true true']));
  expect(peakMemory(pid) ?? 0).toBeLessThan(limit);
}, 120_000);

/** What 100 clients send behind a payment whose response is pending. */
const behind: readonly (readonly [name: string, bytes: string])[] = [
  ['thousands of tiny requests', 'POST / HTTP/1.1\r\n\r\n'.repeat(30_000)],
  ['requests of HTTP/0.9', 'GET /\r\n\r\n'.repeat(60_000)],
  ['garbage', '\0garbage'.repeat(80_000)],
  ['empty lines', '\r\n'.repeat(300_000)],
  ['half a head', `POST / HTTP/1.1\r\n${'a:\r\n'.repeat(90)}`],
  ['a body that is too large', formRequest(paths.transfer, 'x'.repeat(600_000))],
  ['half a body', formRequest(paths.transfer, 'x'.repeat(60_000)).slice(0, -1)],
  [
    'chunks without end',
    formRequest(paths.transfer, '1;a=b\r\nx\r\n'.repeat(60_000), ['Transfer-Encoding: chunked']),
  ],
  ['a tunnel', `CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n${'x'.repeat(600_000)}`],
  ['nothing', ''],
];

it('100 clients that send anything behind a payment each get its response, and take less than 60 MiB', async () => {
  const gateway = await starts.recordingGateway();
  const config = { proxy: { port: 0, timeouts: { headers: '3s', body: '3s', shutdownDelay: '0s' } } };
  const process = await starts.process({ gateway: gateway.url, config });
  const pid = process.child.pid ?? 0;
  const going = Promise.withResolvers<void>();
  gateway.respond = (response) => void going.promise.then(() => response.end('paid'));
  const before = peakMemory(pid) ?? 0;
  const clients = await Promise.all(Array.from({ length: 100 }, () => process.connect()));
  for (const [nth, client] of clients.entries()) {
    client.send(formRequest(paths.transfer, `client_orderid=${nth}`) + behind[nth % behind.length]?.[1]);
    if (nth % 3 === 1) client.finish();
  }
  await until(() => gateway.requests.length === 100);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const growth = (peakMemory(pid) ?? 0) - before;
  gateway.respond = (response) => response.end('paid');
  going.resolve();
  const responses = await Promise.all(clients.map((client) => client.response()));
  expect(responses.map(({ status, body }) => `${status} ${body.toString()}`)).toEqual(
    Array(100).fill('200 paid'),
  );
  const open = (): string[] =>
    clients.flatMap(({ ending }, nth) =>
      ending === undefined ? [behind[nth % behind.length]?.[0] ?? ''] : [],
    );
  // Nothing says that these two are to end.
  const idle = new Set(['nothing', 'empty lines']);
  await until(() => open().every((name) => idle.has(name)), 'every connection ends but those', 30).catch(
    () => {},
  );
  expect(open().filter((name) => !idle.has(name))).toEqual([]);
  expect(gateway.requests).toHaveLength(100);
  expect(growth).toBeLessThan(60 * 1_048_576);
  console.info(`growth ${Math.round(growth / 1_048_576)} MiB`);
}, 60_000);
