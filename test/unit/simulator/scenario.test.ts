import { readFileSync } from 'node:fs';
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
  it('that is built in has the logins and orders that its comments describe', () => {
    const text = readFileSync(new URL('../../../config/scenario.yaml', import.meta.url), 'utf8');
    const { logins, groups, orders } = loadScenario(text);
    expect(Object.keys(logins)).toEqual(['acme', 'beta']);
    expect(logins['acme']?.balances?.map(({ currency }) => currency)).toEqual(['USD', 'EUR']);
    expect(groups).toEqual({ '77': ['1234', '1235'], '78': ['1236'] });
    expect(orders.map((order) => `${order.login} ${order.client_orderid}`)).toEqual([
      'acme invoice-1',
      'acme invoice-2',
      'acme invoice-3',
      'acme invoice-4',
      'acme invoice-4',
      'acme ambiguous',
      'acme invoice-5',
      'beta invoice-1',
    ]);
  });

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

  it('that is not YAML is reported with the place', () => {
    expect(problemsOf('logins:\n  acme: {}\nendpoints: [')).toEqual([
      'line 3: is not indented like its siblings, or has a bracket that is not closed',
    ]);
  });

  it('that is empty is reported with the expected type', () => {
    expect(problemsOf('')).toEqual(['line 1: must be a mapping that contains at least logins']);
  });

  it.each([
    ['an unknown field', `${least}order: []`, 'line 3: order: is not a known key; did you mean "orders"?'],
    [
      'a key, which does not belong here',
      'logins: { acme: { controlKey: x } }',
      'line 1: logins.acme.controlKey: is not a known key',
    ],
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
    [
      'an amount without quotes',
      order('', 'status: approved, amount: 1.50'),
      'line 3: orders[0].stages[0].amount: must be a string: put numbers in quotes',
    ],
    [
      'a balance that is not a number',
      'logins: { acme: { balances: [{ name: a, currency: USD, amount: "1" }] } }',
      'line 1: logins.acme.balances[0].amount: must be a number',
    ],
    ['a stage without a status', order('', 'amount: "1"'), 'line 3: orders[0].stages[0]: must have a status'],
    [
      'a declined order without a message',
      order('', 'status: declined, error-code: "1"'),
      'line 3: orders[0].stages[0]: must have error-message and error-code, because its status is declined, error or filtered',
    ],
    [
      'a filtered order without a code',
      order('', 'status: filtered, error-message: x'),
      'line 3: orders[0].stages[0]: must have error-message and error-code, because its status is declined, error or filtered',
    ],
    [
      'a field that the simulator gives itself',
      order('', 'status: approved, type: x'),
      'line 3: orders[0].stages[0]: must omit type, by-request-sn, merchant-order-id',
    ],
    [
      'an unknown signature',
      `${least}signatures: { transfer: RSA-SHA1 }`,
      'line 3: signatures.transfer: must be HMAC-SHA1 or RSA-SHA256',
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
      'an unknown fault',
      `${least}faults:\n- fault: reset\n- fault: explode`,
      'line 5: faults[1].fault: must be status-403 or status-429 or status-500 or status-502 or status-503 or reset or garbage or drip or cut',
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
      'a place without a cut',
      `${least}faults: [{ fault: drip, cutAfterBytes: 1 }]`,
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
    expect(problemsOf(text)).toEqual([problem]);
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
