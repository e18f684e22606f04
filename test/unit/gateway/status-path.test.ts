import { expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import { isStatusPath, statusPathOf } from '../../../src/gateway/status-path.ts';
import { publishedOperations } from '../../support/scenario.ts';

/** Of a payment to this path of endpoint 12, whose caller may use these operations. */
function queryOf(path: string, allowed: readonly string[] = [], operations: object = publishedOperations) {
  const gateway = { baseUrl: 'https://gateway.test', product: 'gw' };
  const config = configSchema.parse({
    environments: { sandbox: gateway },
    keys: { source: 'directory', directory: 'keys' },
    operations,
  });
  const { operations: table, resolve } = createRoutes(config);
  return statusPathOf(table, resolve(`/sandbox/gw/api/${path}/12`), (name) => allowed.includes(name));
}
const [v2, v4] = ['/sandbox/gw/api/v2/status/12', '/sandbox/gw/api/v4/status/12'];

it('a payment is queried as it was signed', () => {
  expect(queryOf('v2/sale')).toBe(v2);
  expect(queryOf('v4/transfer')).toBe(v4);
  expect(queryOf('v2/pan-eligibility/send')).toBe(v4);
});

it('first of all it is queried by what its caller may use', () => {
  expect(queryOf('v2/sale', ['sale-v2', 'order-status'])).toBe(v4);
  expect(queryOf('v4/transfer', ['transfer', 'status-v2'])).toBe(v2);
  expect(queryOf('v2/sale', ['order-status', 'status-v2'])).toBe(v2);
});

it('a query that needs more than the order ID of the merchant is none, and so is what is no query', () => {
  const strict = { 'status-v2': { ...publishedOperations['status-v2'], parameters: {} } };
  expect(queryOf('v2/sale', ['status-v2'], { ...publishedOperations, ...strict })).toBe(v4);
  expect(
    queryOf('v4/transfer', [], { 'order-status': { parameters: { orderid: { required: true } } } }),
  ).toBe(undefined);
  expect(queryOf('v4/transfer', [], { 'order-status': { readOnly: false } })).toBe(undefined);
});

it.each([
  '/sandbox/gw/api/v4/status/1234',
  '/sandbox/gw/api/v4/status/group/77',
  '/production/pay/api/v5/status/a%40b.c~d_e-f',
])('%s is the path of a query', (path) => {
  expect(isStatusPath(path)).toBe(true);
});

// A log line may be made by anyone: what is sent to such a path must be no payment, and go to Countersign.
it.each([
  '/sandbox/gw/api/v4/transfer/1234',
  '/sandbox/gw/api/v4/transfer/status/1234',
  '/sandbox/gw/api/v4/status/..',
  '/sandbox/gw/api/v4/status/../transfer/1234',
  '/sandbox/gw/api/v4/status/%2e%2e%2ftransfer',
  '/sandbox/gw/api/v4/status/1234?a=b',
  '/sandbox/gw/api/v4/status/1234#',
  '/sandbox/gw/api/v4/status/1234/5',
  '//gateway.example/gw/api/v4/status/1234',
  'https://gateway.example/sandbox/gw/api/v4/status/1234',
  '/sandbox/gw/api/v4/status/',
  '/sandbox/gw/api/v4/status/12\n34',
  '',
])('%j is none', (path) => {
  expect(isStatusPath(path)).toBe(false);
});
