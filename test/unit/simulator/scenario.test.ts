import { describe, expect, it } from '@jest/globals';
import { loadScenario } from '../../support/scenario.ts';

const least = 'logins: { acme: {} }\nendpoints: ["1"]\n';
const refund = '{ path: "/api/v4/refund/{endpoint}", signature: RSA-SHA256, loginFrom: header }';
const order = (fields: string, stage = 'status: approved') =>
  `${least}orders: [{ login: acme, endpoint: "1", client_orderid: a, orderid: "1", ${fields} stages: [{ ${stage} }] }]`;

function problemsOf(text: string): string[] {
  try {
    loadScenario(text);
  } catch (error) {
    return String(error).split('\n  ').slice(1);
  }
  return [];
}

describe('a scenario', () => {
  it('requires only logins', () => {
    expect(loadScenario('logins: {}')).toMatchObject({
      product: 'gw',
      timestampWindowSeconds: 300,
      orders: [],
    });
  });

  it('keeps ${NAME} as it is: variables are not replaced', () => {
    const [first] = loadScenario(order('', "status: '${NAME}'")).orders;
    expect(first?.stages).toEqual([{ status: '${NAME}' }]);
  });

  it('that is empty is reported with the expected type', () => {
    expect(problemsOf('')).toEqual(['line 1: must be a mapping that contains at least logins']);
  });

  it.each([
    ['an unknown field', `${least}order: []`, 'line 3: order: is not a known key; did you mean "orders"?'],
    [
      'a login that no path can hold',
      'logins:\n  "a/b": {}',
      'line 2: logins["a/b"]: must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ -',
    ],
    [
      'an endpoint without quotes',
      'logins: {}\nendpoints:\n- "1"\n- 1234',
      'line 4: endpoints[1]: must be a string: put numbers in quotes',
    ],
    ['a stage without a status', order('', 'amount: "1"'), 'line 3: orders[0].stages[0]: must have a status'],
    [
      'a declined order without a message',
      order('', 'status: declined, error-code: "1"'),
      'line 3: orders[0].stages[0]: must have error-message and error-code',
    ],
    [
      'a field that the simulator gives itself',
      order('', 'status: approved, type: x'),
      'line 3: orders[0].stages[0]: must omit type, by-request-sn, merchant-order-id',
    ],
    [
      'a signature of an unknown operation',
      `${least}signatures: { transfers: HMAC-SHA1 }`,
      'line 3: signatures.transfers: is not an operation; did you mean "transfer"?',
    ],
    [
      'a fault of an unknown operation',
      `${least}faults: [{ operation: refunds, fault: reset }]\noperations: { refund: ${refund} }`,
      'line 3: faults[0].operation: is not an operation; did you mean "refund"?',
    ],
    [
      'a fault that does nothing',
      `${least}faults: [{ operation: transfer }]`,
      'line 3: faults[0]: has no effect: add fault or delaySeconds',
    ],
    [
      'a fault before the effect that needs its response',
      `${least}faults: [{ fault: drip, beforeEffect: true }]`,
      'line 3: faults[0].beforeEffect: requires fault to be a status, reset or garbage',
    ],
    [
      'a cut without a place',
      `${least}faults: [{ fault: cut }]`,
      'line 3: faults[0].cutAfterBytes: belongs to fault: cut, so set both or neither',
    ],
    [
      'an added operation without a signature',
      `${least}operations:\n  refund: { path: /api/v4/refund }`,
      'line 4: operations.refund: is not a built-in operation, so it also requires signature, loginFrom',
    ],
    [
      'an added operation that has the path of another',
      `${least}operations: { pay: ${refund.replace('refund', 'transfer')} }`,
      'line 3: operations.pay: conflicts with the path of "transfer"',
    ],
    [
      'the response of a built-in operation',
      `${least}responses: { transfer: { a: b } }`,
      'line 3: responses.transfer: is not an operation that this scenario adds',
    ],
  ])('with %s is reported with the place', (_, text, problem) => {
    expect(problemsOf(text)).toEqual([expect.stringContaining(problem)]);
  });

  it('with unknown names and duplicate ids is reported with all of them', () => {
    const one = (login: string, endpoint: string) =>
      `  - { login: ${login}, endpoint: "${endpoint}", client_orderid: a, orderid: "7", stages: [{ status: x, serial-number: s }] }\n`;
    const text = `${least}groups: { "77": ["1", "3"] }\norders:\n${one('acme', '2')}${one('beta', '1')}`;
    expect(problemsOf(text)).toEqual([
      'line 3: groups["77"][1]: is not in endpoints: add it there, or correct it',
      'line 5: orders[0].endpoint: is not in endpoints: add it there, or correct it',
      'line 6: orders[1].login: is not in logins: add it there, or correct it',
      'line 6: orders[1].orderid: is used before: every order and stage needs its own',
      'line 6: orders[1].stages[0].serial-number: is used before: every order and stage needs its own',
    ]);
  });
});
