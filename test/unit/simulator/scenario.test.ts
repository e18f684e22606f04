import { describe, expect, it } from '@jest/globals';
import { loadScenario } from '../../support/scenario.ts';

function problemsOf(text: string): string[] {
  try {
    loadScenario(text);
  } catch (error) {
    return String(error).split('\n  ').slice(1);
  }
  return [];
}

const order = (orderid: string, stage: string, login = 'acme', endpoint = '1') =>
  `- { login: ${login}, endpoint: "${endpoint}", client_orderid: a, orderid: "${orderid}", stages: [{ ${stage} }] }`;

describe('a scenario', () => {
  it('requires only logins', () => {
    const defaults = { product: 'gw', orders: [] };
    expect(loadScenario('logins: {}')).toMatchObject(defaults);
    expect(problemsOf('')).toEqual(['line 1: must be a mapping that contains at least logins']);
  });

  it('keeps ${NAME} as it is: variables are not replaced', () => {
    const text = `logins: { acme: {} }\nendpoints: ["1"]\norders:\n${order('1', "status: '${NAME}'")}`;
    expect(loadScenario(text).orders[0]?.stages).toEqual([{ status: '${NAME}' }]);
  });

  it('with wrong values is reported with the place of each', () => {
    const text = `logins: { acme: {}, "a/b": {} }
endpoints: ["1", 1234]
order: []
orders:
${order('1', 'amount: "1"')}
${order('2', 'status: declined, error-code: "1"')}
${order('3', 'status: approved, type: x')}
faults:
- { operation: transfer }
- { delaySeconds: 1, beforeEffect: true }
caller: { tokens: [] }
`;
    expect(problemsOf(text)).toEqual([
      'line 1: logins["a/b"]: must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ -',
      'line 2: endpoints[1]: must be a string: put numbers in quotes',
      'line 3: order: is not a known key; did you mean "orders"?',
      'line 5: orders[0].stages[0]: must have a status',
      'line 6: orders[1].stages[0]: must have error-message and error-code, because its status is declined, error or filtered',
      'line 7: orders[2].stages[0]: must omit type, by-request-sn, merchant-order-id',
      'line 9: faults[0]: has no effect: add fault or delaySeconds',
      'line 10: faults[1].beforeEffect: requires fault',
      'line 11: caller.tokens: must have a token, or be absent to accept any request',
    ]);
  });

  it('with names that do not fit is reported with the place of each', () => {
    const refund = '{ path: "/api/v4/refund/{endpoint}", signature: RSA-SHA256, loginFrom: header }';
    const text = `logins: { acme: {} }
endpoints: ["1"]
groups: { "77": ["1", "3"] }
orders:
${order('7', 'status: x, serial-number: s', 'acme', '2')}
${order('7', 'status: x, serial-number: s', 'beta')}
faults: [{ operation: refunds, fault: reset }, { operation: order, fault: reset }]
operations:
  refund: ${refund}
  pay: ${refund.replace('refund', 'transfer')}
  lacking: { path: /api/v4/lacking }
responses: { transfer: { a: b } }
`;
    expect(problemsOf(text)).toEqual([
      'line 3: groups["77"][1]: is not in endpoints: add it there, or correct it',
      'line 5: orders[0].endpoint: is not in endpoints: add it there, or correct it',
      'line 6: orders[1].login: is not in logins: add it there, or correct it',
      'line 6: orders[1].orderid: is used before: every order and stage needs its own',
      'line 6: orders[1].stages[0].serial-number: is used before: every order and stage needs its own',
      'line 7: faults[0].operation: is not an operation; did you mean "refund"?',
      'line 7: faults[1].operation: is not an operation',
      'line 10: operations.pay: conflicts with the path of "transfer"',
      'line 11: operations.lacking: is not a built-in operation, so it also requires signature, loginFrom',
      'line 12: responses.transfer: is not an operation that this scenario adds',
    ]);
  });
});
