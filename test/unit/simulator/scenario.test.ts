import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { loadScenario } from '../../../src/simulator/scenario.ts';

const least = 'logins: { acme: {} }\nendpoints: ["1"]\n';
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
    expect(groups).toEqual({ '77': ['1234', '1235'] });
    expect(orders.map((order) => `${order.login} ${order.client_orderid}`)).toEqual([
      'acme invoice-1',
      'acme invoice-2',
      'acme invoice-3',
      'acme invoice-4',
      'acme invoice-4',
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

  it('that is not YAML is reported with the place', () => {
    expect(problemsOf('logins: [')[0]).toContain('line 1');
  });

  it('that is empty is reported with the expected type', () => {
    expect(problemsOf('')).toEqual(['Invalid input: expected object, received null']);
  });

  it.each([
    ['an unknown field', `${least}order: []`, 'Unrecognized key: "order"'],
    [
      'a key, which does not belong here',
      'logins: { acme: { controlKey: x } }',
      'logins.acme: Unrecognized key: "controlKey"',
    ],
    ['a login that no path can hold', 'logins: { "a/b": {} }', 'logins["a/b"]: Invalid key in record'],
    [
      'an endpoint without quotes',
      'logins: {}\nendpoints: [1234]',
      'endpoints[0]: must be a string: put numbers in quotes',
    ],
    [
      'an amount without quotes',
      order('', 'status: approved, amount: 1.50'),
      'orders[0].stages[0].amount: must be a string: put numbers in quotes',
    ],
    ['a stage without a status', order('', 'amount: "1"'), 'orders[0].stages[0]: must have a status'],
    [
      'a declined order without a message',
      order('', 'status: declined, error-code: "1"'),
      'orders[0].stages[0]: must have error-message and error-code, because its status is declined, error or filtered',
    ],
    [
      'a field that the simulator gives itself',
      order('', 'status: approved, type: x'),
      'orders[0].stages[0]: must omit type, by-request-sn, merchant-order-id',
    ],
    ['an unknown signature', `${least}signatures: { transfer: RSA-SHA1 }`, 'signatures.transfer: '],
    ['an unknown operation', `${least}signatures: { refund: HMAC-SHA1 }`, 'signatures'],
    ['an unknown fault', `${least}faults: [{ fault: explode }]`, 'faults[0].fault: '],
  ])('with %s is reported with the place', (_, text, problem) => {
    expect(problemsOf(text)).toEqual([expect.stringContaining(problem)]);
  });

  it('with unknown names and duplicate ids is reported with all of them', () => {
    const one = (login: string, endpoint: string) =>
      `  - { login: ${login}, endpoint: "${endpoint}", client_orderid: a, orderid: "7", stages: [{ status: x, serial-number: s }] }\n`;
    const text = `${least}groups: { "77": ["1", "3"] }\norders:\n${one('acme', '2')}${one('beta', '1')}`;
    expect(problemsOf(text)).toEqual([
      'groups.77: endpoint 3 is not in endpoints',
      'orders[0].endpoint: 2 is not in endpoints',
      'orders[1].login: beta is not in logins',
      'orders: duplicate orderid 7',
      'orders: duplicate serial-number s',
    ]);
  });
});
