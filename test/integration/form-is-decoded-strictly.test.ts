import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Reason } from '../../src/errors.ts';
import { nextIsServed } from '../support/countersign.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { testControlKey } from '../support/service.ts';
import { receivedFrom, verifyAuthorization } from '../support/verify.ts';

const { balance, status, transfer } = paths;

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  edge = await starts.edge();
});
beforeEach(() => {
  edge.gateway.requests.length = 0;
});

const card = '4000056655665556';
const manyOf = (count: number): string => Array.from({ length: count }, (_, n) => `p${n}=`).join('&');

const rejected: [name: string, target: string, form: string, reason: Reason][] = [
  ['% without hex digits', balance, 'a=%zz', 'malformed-form'],
  ['% at the end', balance, 'a=%', 'malformed-form'],
  ['UTF-8 that is cut short', balance, 'a=%C3', 'malformed-form'],
  ['UTF-8 that is overlong', balance, 'a=%C0%AF', 'malformed-form'],
  ['an escaped surrogate', balance, 'a=%ED%A0%80', 'malformed-form'],
  ['a name that is no UTF-8', balance, '%FF=a', 'malformed-form'],
  ['2,000 parameters', balance, manyOf(2000), 'too-large'],
  ['1,001 parameters', balance, manyOf(1001), 'too-large'],
  ['oauth_nonce of the caller', balance, 'oauth_nonce=x', 'reserved-parameter'],
  ['an escaped oauth_signature', balance, 'a=b&oauth%5Fsignature=x', 'reserved-parameter'],
  ['an unknown oauth_ parameter', transfer, 'oauth_=', 'reserved-parameter'],
  ['client_orderid missing', status, 'login=acme', 'parameter-invalid'],
  ['client_orderid empty', status, 'login=acme&client_orderid=', 'parameter-invalid'],
  ['client_orderid twice', status, `${statusForm}&client_orderid=o-2`, 'parameter-invalid'],
  ['a balance-name of 129 characters', balance, `balance-name=${'x'.repeat(129)}`, 'parameter-invalid'],
];

describe('a form', () => {
  it.each(rejected)(
    'is rejected, and with 400 the connection closes: %s',
    async (_, target, form, reason) => {
      const connection = await edge.connect();
      const response = await connection.send(formRequest(target, form)).response();
      expectProblem(response, reason);
      expect(edge.gateway.requests).toHaveLength(0);
      expect(response.headers.connection).toBe(response.status === 400 ? 'close' : 'keep-alive');
      if (response.status === 400) expect(await connection.ended()).toBe('FIN');
      else expect(await nextIsServed(connection)).toBe(true);
    },
  );

  it('that is not UTF-8 is rejected even if it is not escaped', async () => {
    const head = formRequest(balance, '', ['Content-Length: 3']);
    const response = await edge.send(Buffer.concat([Buffer.from(head), Buffer.from('a=\xff', 'latin1')]));
    expectProblem(response, 'malformed-form');
  });

  it('that is rejected is described without its content', async () => {
    const form = `a=1&credit_card_number=${card}%zz&cvv2=q9z7`;
    const problem = expectProblem(await edge.send(formRequest(transfer, form)), 'malformed-form');
    expect(problem.detail).toMatch(/^Parameter 2 /);
    expect(JSON.stringify(problem) + edge.logText()).not.toMatch(new RegExp(`${card}|q9z7`));
  });

  it.each([
    [
      'names that objects reserve',
      '__proto__=a&constructor=b&__proto__=c',
      [
        ['__proto__', 'a'],
        ['constructor', 'b'],
        ['__proto__', 'c'],
      ],
    ],
    [
      'order, repeated pairs, empty names and values',
      'b=2&a=1&b=2&=x&y=&z',
      [
        ['b', '2'],
        ['a', '1'],
        ['b', '2'],
        ['', 'x'],
        ['y', ''],
        ['z', ''],
      ],
    ],
    [
      'plus signs, escaped and not',
      'a+b=c+d&e=%2B',
      [
        ['a b', 'c d'],
        ['e', '+'],
      ],
    ],
    ['line feeds and NUL', 'a=%0D%0A%00', [['a', '\r\n\0']]],
    [
      '128 characters beyond the basic plane',
      `balance-name=${'%F0%9F%98%80'.repeat(128)}`,
      [['balance-name', '😀'.repeat(128)]],
    ],
    ['a thousand parameters', manyOf(1000), Array.from({ length: 1000 }, (_, n) => [`p${n}`, ''])],
    [
      'names that only look like OAuth',
      'oauth=y&xoauth_a=z&oauth-nonce=x',
      [
        ['oauth', 'y'],
        ['xoauth_a', 'z'],
        ['oauth-nonce', 'x'],
      ],
    ],
  ])('reaches the gateway unchanged: %s', async (_, form, pairs) => {
    expect((await edge.send(formRequest(balance, form))).status).toBe(200);
    const received = receivedFrom(edge.gateway.requests[0]);
    const verified = verifyAuthorization(received, { controlKey: testControlKey });
    expect(verified.form).toEqual(pairs);
  });
});
