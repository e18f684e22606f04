import { execSync } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { welcome } from '../../src/cli/demo/demo.ts';
import { Processes, type RunningDemo } from '../support/demo.ts';
import { post as sendForm } from '../support/forwarding.ts';

let processes: Processes;

beforeEach(() => {
  processes = new Processes();
});
afterEach(() => processes.clear());

const balance = '/sandbox/gw/api/v2/get-balance/manager';

const post = (url: string, body = '', headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, { method: 'POST', body: new URLSearchParams(body), headers });

it.each(['SIGTERM', 'SIGINT'] as const)(
  'stops soon after %s when it is idle, also with clients that keep their connections, and deletes its keys and its ready file',
  async (signal) => {
    const { proxyUrl, adminUrl, gatewayAdminUrl, readyFile, child, finished } = await processes.startDemo();
    // Of fetch, which keeps them.
    await (await post(`${proxyUrl}${balance}/acme`)).text();
    for (const url of [`${adminUrl}/metrics`, `${gatewayAdminUrl}/journal`]) await (await fetch(url)).text();
    const began = performance.now();
    child.kill(signal);
    const { code, out, err } = await finished;
    expect([code, err]).toEqual([0, expect.stringContaining('Press Ctrl-C to stop.')]);
    // What is not of the log is on standard error.
    for (const line of out.trimEnd().split('\n')) expect(JSON.parse(line)).toHaveProperty('msg');
    // Half a second on an idle machine; a delay for a load balancer would be five seconds.
    expect(performance.now() - began).toBeLessThan(4_000);
    expect(existsSync(readyFile)).toBe(false);
    expect(readdirSync(processes.folder)).toEqual([]);
  },
);

/** @returns the name of its file */
function scenarioOf(...lines: readonly string[]): string {
  const file = join(processes.folder, 'scenario.yaml');
  writeFileSync(file, lines.join('\n'));
  return file;
}

it('runs a scenario, sends each payment once if that is wanted, and shows why the simulator rejected a request', async () => {
  const scenario = scenarioOf(
    'product: pay',
    'logins: { shop: { balances: [] }, constructor: {} }',
    'endpoints: ["9"]',
    'groups: { "90": ["9"] }',
    'operations: { transfer: { signature: HMAC-SHA1 } }',
    'orders: [{ login: shop, endpoint: "9", client_orderid: o1, orderid: "5", stages: [{ status: approved }] }]',
  );
  const own = ['--scenario', scenario, '--payments-once'];
  const { proxyUrl, gatewayAdminUrl } = await processes.startDemo(own);
  const api = `${proxyUrl}/sandbox/pay/api`;
  const status = await post(`${api}/v4/status/group/90`, 'login=shop&client_orderid=o1');
  expect(await status.text()).toContain('status=approved');
  for (const code of [200, 409])
    expect((await post(`${api}/v4/transfer/9`, 'client_orderid=o2')).status).toBe(code);
  const whole = await post(`${api}/v2/return/9`, 'client_orderid=o1&orderid=5');
  expect(await whole.text()).toContain('type=async-response');
  const rejected = await post(`${api}/v2/get-balance/manager/constructor`);
  expect([rejected.status, rejected.headers.get('Simulator-Rejection')]).toEqual([403, expect.any(String)]);
  const target = '/sandbox/pay/api/v4/transfer/9';
  const argv = ['explain', '--target', target, '--gateway-admin-url', gatewayAdminUrl];
  expect(await processes.run(argv, 'client_orderid=1')).toMatchObject({
    code: 0,
    out: expect.stringContaining('HMAC-SHA1 with the control key'),
  });
});

it('responds with 401 and 503 as the scenario says', async () => {
  const scenario = scenarioOf(
    'logins: { shop: { balances: [] }, gone: { balances: [], keys: unavailable } }',
    'endpoints: ["9"]',
    'caller: { tokens: [test-token] }',
  );
  const { proxyUrl, gatewayAdminUrl } = await processes.startDemo(['--scenario', scenario]);
  const send = async (login: string, headers: Record<string, string> = {}) => {
    const response = await post(`${proxyUrl}${balance}/${login}`, '', headers);
    const [, reason] = /"reason":"([^"]+)"/.exec(await response.text()) ?? [];
    return [response.status, reason, response.headers.has('Retry-After')];
  };
  const authorization = 'Bearer test-token';
  expect(await send('shop', { authorization })).toEqual([200, undefined, false]);
  expect(await send('shop')).toEqual([401, 'caller-unknown', false]);
  expect(await send('gone', { authorization })).toEqual([503, 'key-source-unavailable', true]);
  const rotate = ['demo', 'rotate', '--after', '0', '--gateway-admin-url', gatewayAdminUrl];
  const steps = expect.stringMatching(/Countersign has read it.*\n.*The gateway accepts it/);
  expect(await processes.run(rotate)).toMatchObject({ code: 0, err: '', out: steps });
}, 60_000);

describe('one that runs', () => {
  const shared = new Processes();
  let demo: RunningDemo;
  beforeAll(async () => {
    demo = await shared.startDemo();
  });
  afterAll(() => shared.clear());

  it('welcomes with commands that work', () => {
    const commands = welcome(demo, false).match(/curl .*/g) ?? [];
    const statuses = commands.map((command) =>
      execSync(`${command} -s -o /dev/null -w '%{http_code}'`, { encoding: 'utf8' }),
    );
    expect(statuses).toEqual(['200', '200', '200']);
  });

  it('accepts any bearer token', async () => {
    const headers = { authorization: 'Bearer ???' };
    expect((await post(`${demo.proxyUrl}${balance}/acme`, '', headers)).status).toBe(200);
  });

  it('explain --curl prints a request that the running demo accepts; without one it asks for a file', async () => {
    const argv = ['explain', '--target', '/sandbox/gw/api/v4/status/1234', '--curl', '--gateway-admin-url'];
    const form = 'login=acme&client_orderid=invoice-1';
    const { code, out, err } = await shared.run([...argv, demo.gatewayAdminUrl], form);
    expect([code, err]).toEqual([
      0,
      `Using the keys and the gateway simulator of the running demo at ${demo.proxyUrl}.\n`,
    ]);
    const [, url = '', authorization = '', body = ''] =
      /curl -X POST '(.*)' \\\n {2}-H 'Authorization: (.*)' \\\n {2}--data-raw '(.*)'/.exec(out) ?? [];
    expect(url).toBe(`${demo.gatewayUrl}/gw/api/v4/status/1234`);
    const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' };
    const response = await fetch(url, { method: 'POST', headers, body });
    expect([response.status, await response.text()]).toEqual([
      200,
      expect.stringContaining('status=approved'),
    ]);
    expect(await processes.run([...argv, 'http://127.0.0.1:1'], form)).toEqual({
      code: 2,
      out: '',
      err: '--config FILE is required, or start a demo: countersign demo (on another port: --gateway-admin-url URL)\n',
    });
  });

  it('has other keys than another, which accepts the name of its container for operators if allowed', async () => {
    const other = await shared.startDemo(['--admin-allowed-host', 'gateway.test']);
    const keyDirectories = readdirSync(shared.folder).filter((name) => name.startsWith('countersign-keys-'));
    expect(keyDirectories).toHaveLength(2);
    for (const { proxyUrl } of [demo, other])
      expect((await post(`${proxyUrl}${balance}/beta`)).status).toBe(200);
    const statuses = [other, demo].flatMap(({ adminUrl, gatewayAdminUrl }) =>
      [`${adminUrl}/metrics`, `${gatewayAdminUrl}/journal`].map(
        async (url) => (await sendForm(url, '', { Host: 'gateway.test' }, { method: 'GET' })).status,
      ),
    );
    expect(await Promise.all(statuses)).toEqual([200, 200, 421, 421]);
  });
});
