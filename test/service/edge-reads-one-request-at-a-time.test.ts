import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { balance, type Edge, nextIsServed, startEdge, transfer } from '../support/edge.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';

let edge: Edge;

beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge.stop());
afterEach(() => {
  edge.gateway.requests.splice(0);
  edge.gateway.reply = (response) => response.end('OK');
});

/** Holds the gateway's answers back; resolves when a request is there, with what lets it be answered. */
function hold(): Promise<() => void> {
  return new Promise((resolve) => {
    edge.gateway.reply = (response) => resolve(() => response.end('paid'));
  });
}

const wrong = formRequest(balance, 'a=%zz');
const right = formRequest(balance, 'a=b');

describe('requests that come before earlier ones are answered', () => {
  it('are answered in order, and a refusal among them takes nobody else with it', async () => {
    const connection = await RawConnection.open(edge.proxy.url);
    connection.send(right + wrong + right);
    expect((await connection.answer()).status).toBe(200);
    expectProblem(await connection.answer(), 'malformed-form');
    expect((await connection.answer()).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(2);
    expect(await nextIsServed(connection)).toBe(true);
  });

  it('are not carried out behind an answer that says "close"', async () => {
    const connection = await RawConnection.open(edge.proxy.url);
    connection.send(formRequest(balance, '', ['Content-Type: text/plain', 'Content-Length: 3']));
    const answer = await connection.answer();
    expect(answer.headers.connection).toBe('close');
    connection.send(`a=b${formRequest(transfer, 'amount=1')}`);
    expect(await connection.ended()).toBe('FIN');
    expect(edge.gateway.requests).toHaveLength(0);
  });
});

describe('bytes that are not HTTP behind a payment', () => {
  it.each([
    ['garbage', formRequest(transfer, 'amount=1'), 'garbage\r\n\r\n'],
    ['a request after "close"', formRequest(transfer, 'amount=1', ['Connection: close']), right],
    ['a tunnel', formRequest(transfer, 'amount=1'), 'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n'],
  ])('are never answered in its place: %s', async (_, payment, behind) => {
    const before = (await edge.exchanges(0)).length;
    const connection = await RawConnection.open(edge.proxy.url);
    const held = hold();
    connection.send(payment);
    const release = await held;
    connection.send(behind);
    await new Promise((resolve) => setTimeout(resolve, 50));
    release();
    const answer = await connection.answer();
    expect(answer.body.toString()).toBe('paid');
    expect(answer.headers['countersign-outcome']).toBe('answered');
    expect(await connection.ended()).toBe('FIN');
    expect(edge.gateway.requests).toHaveLength(1);
    expect((await edge.exchanges(before + 1)).slice(before)).toEqual([
      expect.objectContaining({ outcome: 'answered', operation: 'transfer' }),
    ]);
  });
});
