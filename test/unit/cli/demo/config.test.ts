import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import {
  type DemoSettings,
  defaultGatewayUrl,
  loadDemoConfig,
  readDemoScenario,
} from '../../../../src/cli/demo/config.ts';
import { tokenCredential } from '../../../support/config.ts';
import { loadScenario } from '../../../support/scenario.ts';

/** The configuration of a demo that runs this scenario. */
async function configOf(scenario: string, settings: Partial<DemoSettings> = {}) {
  const variables = { keyDirectory: '/keys', gatewayUrl: defaultGatewayUrl };
  const defaults = { host: '127.0.0.1', allowedHosts: [], overrides: {} };
  const loaded = await loadDemoConfig(variables, {
    ...defaults,
    scenario: loadScenario(scenario),
    ...settings,
  });
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems));
  return loaded.config;
}

it('an endpoint or a group leads to the login of its first order, or else to the first login', async () => {
  const order = (login: string, endpoint: string, id: number) =>
    `  - { login: ${login}, endpoint: "${endpoint}", client_orderid: a, orderid: "${id}", stages: [{ status: x }] }\n`;
  const config = await configOf(`logins: { first: {}, beta: {}, gamma: {} }
endpoints: ["1", "2", "3"]
groups: { "88": ["2", "3"], "77": ["1"] }
orders:
${order('beta', '2', 1)}${order('gamma', '2', 2)}`);
  // Those of the file lead to a login that the scenario does not have.
  expect(config.environments['sandbox']?.endpoints).toEqual({
    '1': 'first',
    '2': 'beta',
    '3': 'first',
    '88': 'beta',
    '77': 'first',
  });
});

it('the endpoints of the file stay where the scenario has their login', async () => {
  const config = await configOf('logins: { beta: {}, acme: {} }\nendpoints: ["1234", "5"]\n');
  expect(config.environments['sandbox']?.endpoints).toEqual({ '1234': 'acme', '77': 'acme', '5': 'beta' });
});

it('of the demo leads each login to its orders', async () => {
  const { scenario } = await readDemoScenario();
  const text = readFileSync(new URL('../../../../config/scenario.yaml', import.meta.url), 'utf8');
  const endpoints = (await configOf(text)).environments['sandbox']?.endpoints;
  expect(endpoints).toEqual({ '1234': 'acme', '1235': 'acme', '1236': 'beta', '77': 'acme', '78': 'beta' });
  // No order of a login is at an endpoint that leads to another one.
  expect(scenario.orders.filter(({ login, endpoint }) => endpoints?.[endpoint] !== login)).toEqual([]);
});

it('the time for the gateway is that of --request-timeout, also if it is shorter than that to connect', async () => {
  const timeoutsWith = async (requestTimeout?: number) =>
    (await configOf('logins: { acme: {} }\n', { requestTimeout })).environments['sandbox']?.timeouts;
  expect(await timeoutsWith()).toEqual({ connect: 3_000, request: 30_000 });
  expect(await timeoutsWith(60_000)).toEqual({ connect: 3_000, request: 60_000 });
  expect(await timeoutsWith(500)).toEqual({ connect: 500, request: 500 });
});

it('operations, their signatures and the product are those of the scenario', async () => {
  const refund = 'path: "/api/v4/return/{endpoint}", loginFrom: header';
  const config = await configOf(`logins: { acme: {} }
product: pay
operations: { refund: { ${refund}, signature: RSA-SHA256 } }
signatures: { refund: HMAC-SHA1, transfer: HMAC-SHA1 }
`);
  expect(config.environments['sandbox']).toMatchObject({
    baseUrl: defaultGatewayUrl,
    product: 'pay',
    operations: {
      refund: { path: '/api/v4/return/{endpoint}', loginFrom: 'header', signature: 'HMAC-SHA1' },
      transfer: { signature: 'HMAC-SHA1' },
    },
  });
});

it('the caller is anyone, or has the tokens and the limit of the scenario', async () => {
  const anyone = await configOf('logins: { acme: {} }\n');
  expect(anyone.callers).toMatchObject([{ name: 'local', credentials: [{ anonymous: true }] }]);
  expect(anyone.callers[0]).not.toHaveProperty('maxInFlight');
  const known = await configOf('logins: { acme: {} }\ncaller: { tokens: [one, two], maxInFlight: 3 }\n');
  expect(known.callers).toMatchObject([
    { name: 'local', maxInFlight: 3, credentials: [tokenCredential('one'), tokenCredential('two')] },
  ]);
});

it('both ports have the address and the hosts that are given', async () => {
  const overrides = { port: 1, 'admin-port': 2, 'log-level': 'warn' } as const;
  const settings = { host: '0.0.0.0', allowedHosts: ['demo'], overrides };
  expect(await configOf('logins: { acme: {} }\n', settings)).toMatchObject({
    proxy: { host: '0.0.0.0', port: 1, allowedHosts: ['demo'], allowAnonymous: true },
    admin: { host: '0.0.0.0', port: 2, allowedHosts: ['demo'] },
    keys: { directory: '/keys' },
    log: { level: 'warn' },
  });
});
