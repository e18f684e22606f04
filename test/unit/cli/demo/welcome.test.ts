import { expect, it } from '@jest/globals';
import { welcome } from '../../../../src/cli/demo/demo.ts';
import { loadScenario } from '../../../support/scenario.ts';

const urlsWith = (adminUrl: string) => ({ proxyUrl: 'P', adminUrl, gatewayUrl: 'G', gatewayAdminUrl: 'GA' });

it.each([
  ['http://127.0.0.1:9090', true],
  ['http://[::1]:9090', true],
  ['http://0.0.0.0:9090', false],
])('names the status page only where it is served without a token: %s', (adminUrl, isServed) => {
  const text = welcome(urlsWith(adminUrl), loadScenario('logins: { acme: {} }\n'));
  expect(text.includes(`Status page:        ${adminUrl}/\n`)).toBe(isServed);
  expect(text.includes('countersign demo rotate')).toBe(isServed);
});

it('the commands to paste encode an order ID that a shell or a terminal would interpret', () => {
  const scenario = loadScenario(
    'logins: { acme: {} }\nendpoints: ["1"]\n' +
      'orders: [{ login: acme, endpoint: "1", client_orderid: "a;$(id) \'\\e\\n", orderid: "5", stages: [{ status: approved }] }]\n',
  );
  expect(welcome(urlsWith('http://127.0.0.1:9090'), scenario)).toContain(
    'curl -d login=acme -d client_orderid=a%3B%24%28id%29%20%27%1B%0A P/sandbox/gw/api/v4/status/1\n',
  );
});

it('the commands to paste have the token of a scenario that requires one, and only what it has', () => {
  const scenario = loadScenario(
    'logins: { beta: {}, acme: { balances: [] } }\nendpoints: ["7", "8"]\ncaller: { tokens: [one, two] }\n',
  );
  const commands = welcome(urlsWith('http://127.0.0.1:9090'), scenario).match(/curl .*/g);
  expect(commands).toEqual([
    "curl -H 'Authorization: Bearer one' -X POST P/sandbox/gw/api/v2/get-balance/manager/acme",
    "curl -H 'Authorization: Bearer one' -d client_orderid=invoice-7 -d amount=12.50 -d currency=EUR P/sandbox/gw/api/v4/transfer/7",
  ]);
});
