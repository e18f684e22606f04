import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { everything, tokenCredential } from '../support/config.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';

const starts = harness(afterAll);
let proxy: TestProxy;

beforeAll(async () => {
  const gateway = await starts.simulator({ clock: () => Date.now() });
  proxy = await starts.proxy({ gateway: gateway.url });
});

async function exemplarsAfter(traceparent: string): Promise<string> {
  await proxy.post(paths.status, statusForm, { traceparent });
  const headers = { Accept: 'application/openmetrics-text' };
  const page = await (await fetch(`${proxy.adminUrl}/metrics`, { headers })).text();
  return page.match(/trace_id="[^"]*"/g)?.join() ?? 'none';
}

it('a trace that the caller did not sample is logged, but not an exemplar', async () => {
  const traceId = '11111111111111111111111111111111';
  expect(await exemplarsAfter(`00-${traceId}-00f067aa0ba902b7-00`)).not.toContain(traceId);
  expect(proxy.logLines()).toContainEqual(expect.objectContaining({ traceId }));
});

it('a trace that the caller sampled is an exemplar', async () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  expect(await exemplarsAfter(`00-${traceId}-00f067aa0ba902b7-01`)).toContain(traceId);
});

it.each([
  ['without a token', {}],
  ['with a wrong token', { Authorization: 'Bearer wrong' }],
])('the traceparent of a client %s is in neither exemplars nor the log', async (_who, credential) => {
  const gateway = await starts.recordingGateway();
  const callers = [{ name: 'billing', credentials: [tokenCredential('right')], allow: [everything] }];
  const guarded = await starts.proxy({ gateway: gateway.url, config: { callers } });
  const traceId = '5bf92f3577b34da6a3ce929d0e0e4736';
  const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;
  const send = (headers: Readonly<Record<string, string>>) =>
    guarded.post(paths.balance, '', { traceparent, ...headers });
  expect((await send(credential)).status).toBe(401);
  // Before the caller is known, too.
  expect((await send({ ...credential, 'Content-Type': 'text/plain', 'Content-Length': '3' })).status).toBe(
    415,
  );
  const exemplars = async (): Promise<string> => {
    const headers = { Accept: 'application/openmetrics-text' };
    return (await fetch(`${guarded.adminUrl}/metrics`, { headers })).text();
  };
  expect((await exemplars()) + guarded.logText()).not.toContain(traceId);
  expect((await send({ Authorization: 'Bearer right' })).status).toBe(200);
  await guarded.requestLines(3);
  expect(await exemplars()).toContain(`trace_id="${traceId}"`);
  expect(guarded.logLines()).toContainEqual(expect.objectContaining({ traceId, status: 200 }));
});

it('a traceparent of a later version is parsed', async () => {
  const traceId = '33333333333333333333333333333333';
  expect(await exemplarsAfter(`01-${traceId}-00f067aa0ba902b7-01-more`)).toContain(traceId);
  expect(proxy.logLines()).toContainEqual(expect.objectContaining({ traceId }));
});
