import { expect, it } from '@jest/globals';
import { welcome } from '../../../../src/cli/demo/welcome.ts';
import { loadScenario } from '../../../../src/simulator/scenario.ts';

it('the commands to paste encode an order ID that a shell or a terminal would interpret', () => {
  const scenario = loadScenario(
    'logins: { acme: {} }\nendpoints: ["1"]\n' +
      'orders: [{ login: acme, endpoint: "1", client_orderid: "a;$(id) \'\\e\\n", orderid: "5", stages: [{ status: approved }] }]\n',
  );
  const urls = { proxyUrl: 'P', adminUrl: 'A', gatewayUrl: 'G', gatewayAdminUrl: 'GA' };
  expect(welcome(urls, scenario)).toContain(
    'curl -d login=acme -d client_orderid=a%3B%24%28id%29%20%27%1B%0A P/sandbox/gw/api/v4/status/1\n',
  );
});
