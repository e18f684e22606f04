import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { status, transfer } = paths;

const starts = harness();

/** A form of 64 KiB that consists of percent escapes. */
const largeForm = `client_orderid=${'%2B'.repeat(21_800)}`;
/** What one caller may hold, who is alone: half of the budget. */
const share = 1_048_576;
const smallest = { proxy: { port: 0, maxBufferedBytes: 2 * share } };

/** Sends forms of these lengths, whose responses are delayed until the end of the test. Status requests get `body`. */
async function holdForms(edge: Edge, lengths: readonly number[], body = ''): Promise<void> {
  const over = Promise.withResolvers<void>();
  // The proxy waits for requests in flight.
  starts.atEnd(over.resolve);
  edge.gateway.respond = (response, { target }) => {
    if (target.includes('/status/')) {
      response.setHeader('Content-Type', 'text/html');
      response.end(body);
    } else void over.promise.then(() => response.end('OK'));
  };
  for (const length of lengths) {
    void edge.post(transfer, `client_orderid=${'b'.repeat(length - 15)}`);
  }
  await until(() => edge.gateway.requests.length === lengths.length);
}

describe('the memory for requests and responses', () => {
  it('when used up, rejects a further form as overloaded, and accepts forms again afterwards', async () => {
    const edge = await starts.edge({ config: smallest });
    const going = Promise.withResolvers<void>();
    edge.gateway.respond = (response) => void going.promise.then(() => response.end('OK'));
    const held = [edge.post(transfer, largeForm), edge.post(transfer, largeForm)];
    await until(() => edge.gateway.requests.length === 2);
    const rejected = await edge.post(transfer, largeForm);
    expect(rejected).toMatchObject({
      status: 503,
      headers: { 'retry-after': '1', 'countersign-outcome': 'not-sent' },
    });
    expect(JSON.parse(rejected.body)).toMatchObject({ reason: 'overloaded' });
    edge.gateway.respond = (response) => response.end('OK');
    expect((await edge.post(transfer, 'client_orderid=1')).status).toBe(200);
    going.resolve();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await edge.post(transfer, largeForm)).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(4);
  });

  it('when used up, makes large responses stream, complete and unchanged', async () => {
    const edge = await starts.edge({ config: smallest });
    const body = Buffer.alloc(900_000, 'abc');
    edge.gateway.respond = (response) => response.end(body);
    const responses = await Promise.all(
      Array.from({ length: 8 }, () => edge.post(transfer, 'client_orderid=1')),
    );
    for (const response of responses) {
      expect([response.status, response.complete, response.body === body.toString('latin1')]).toEqual([
        200,
        true,
        true,
      ]);
    }
  });

  it('when used up, still suffices for a status response of 60 KB as JSON', async () => {
    const edge = await starts.edge({ config: smallest });
    // All but 10 KB.
    const statusResponse = `type=status-response\n&descriptor=${'x'.repeat(59_966)}\n`;
    await holdForms(edge, [60_000, 60_000, 53_000], statusResponse);
    const response = await edge.post(status, statusForm, { Accept: 'application/json' });
    expect(response).toMatchObject({ status: 200, headers: { 'content-type': /json/ } });
    expect(JSON.parse(response.body)).toMatchObject({ type: 'status-response' });
  });

  it('is reserved for a response until its client has read it or disconnected', async () => {
    const edge = await starts.edge({ config: { proxy: { port: 0, maxBufferedBytes: 4_000_000 } } });
    edge.gateway.respond = (response) => response.end(Buffer.alloc(900_000));
    const slow = (await edge.connect()).pause();
    // The kernel buffers the first ones.
    for (let sent = 0; sent === edge.gateway.requests.length; sent += 1) {
      slow.send(formRequest(transfer, 'client_orderid=1'));
      await wait(500);
    }
    edge.gateway.respond = (response) => response.end('OK');
    expect((await edge.post(transfer, largeForm)).status).toBe(503);
    slow.close();
    await until(async () => (await edge.post(transfer, largeForm)).status === 200);
  });

  it('is changed by a reload', async () => {
    const edge = await starts.edge({ config: smallest });
    await edge.reload({ proxy: { port: 0, maxBufferedBytes: 8_388_608 } });
    // Three times 360 KB: more than there was before.
    await holdForms(edge, [60_000, 60_000, 60_000]);
    await edge.reload(smallest);
    expect((await edge.post(transfer, 'client_orderid=1')).status).toBe(503);
  });
});
