import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type DemoSettings, loadDemoConfig, readDemoScenario } from '../../../src/cli/demo/config.ts';
import { welcome } from '../../../src/cli/demo/demo.ts';
import { announce, findDemo, removeStaleReadyFile, settingsOf } from '../../../src/cli/demo/ready-file.ts';
import { listenSimulatorWithAdmin } from '../../../src/simulator/listen.ts';
import { run } from '../../support/cli.ts';
import { tokenCredential } from '../../support/config.ts';
import { Folder } from '../../support/folder.ts';
import { harness } from '../../support/harness.ts';
import { listen } from '../../support/listening.ts';
import { loadScenario } from '../../support/scenario.ts';

const starts = harness();
const gatewayUrl = 'http://127.0.0.1:8090';

describe('the configuration of a demo', () => {
  /** The configuration of a demo that runs this scenario. */
  async function configOf(scenario: string, settings: Partial<DemoSettings> = {}) {
    const variables = { keyDirectory: '/keys', gatewayUrl };
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
    expect(config.environments['sandbox']?.endpoints).toEqual({
      '1': 'first',
      '2': 'beta',
      '3': 'first',
      '88': 'beta',
      '77': 'first',
    });
  });

  it('of the demo leads each login to its orders', async () => {
    const { scenario } = await readDemoScenario();
    const text = readFileSync(new URL('../../../config/scenario.yaml', import.meta.url), 'utf8');
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

  it('operations and the product are those of the scenario', async () => {
    const refund = 'path: "/api/v4/return/{endpoint}", loginFrom: header';
    const config = await configOf(`logins: { acme: {} }
product: pay
operations: { refund: { ${refund}, signature: HMAC-SHA1 }, transfer: { signature: HMAC-SHA1 } }
`);
    expect(config.environments['sandbox']).toMatchObject({
      baseUrl: gatewayUrl,
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
});

describe('a demo that runs', () => {
  const demo = {
    proxyUrl: 'http://127.0.0.1:8080',
    adminUrl: 'http://[::]:9090',
    gatewayUrl,
    gatewayAdminUrl: 'http://localhost:8091',
    keyDirectory: 'K',
    pid: process.pid,
  };
  let folder: Folder;
  beforeEach(() => {
    folder = new Folder();
  });
  afterEach(() => folder.remove());

  /** A demo that says this of itself. @returns the address */
  async function runningWith(fields: object): Promise<string> {
    const options = { scenario: loadScenario('logins: {}\n'), keys: new Map(), clock: Date.now, port: 0 };
    const admin = { port: 0, demo: { ...demo, ...fields } };
    return starts.closing(await listenSimulatorWithAdmin({ ...options, admin })).adminUrl;
  }

  it('is that which responds at its address with addresses there, and says where its keys are', async () => {
    const keyDirectory = folder.at('countersign-keys-1');
    mkdirSync(keyDirectory);
    expect(await findDemo(await runningWith({ keyDirectory }), folder.path)).toEqual({
      ...demo,
      keyDirectory,
    });
    const elsewhere = { keyDirectory, gatewayUrl: 'http://192.0.2.1:8090' };
    for (const none of [await runningWith({ pid: null }), await runningWith(elsewhere), 'nowhere'])
      expect(await findDemo(none, folder.path)).toBeUndefined();
  });

  it('is none whose keys are not in a key directory of this user', async () => {
    const directories = ['other', 'countersign-keys-link', 'countersign-keys-0'].map((name) =>
      folder.at(name),
    );
    mkdirSync(folder.at('other'));
    symlinkSync(folder.at('other'), folder.at('countersign-keys-link'));
    if (process.getuid?.() === 0) {
      mkdirSync(folder.at('countersign-keys-0'));
      chownSync(folder.at('countersign-keys-0'), 65_534, 65_534);
    }
    // A way through a link, which can change any time, and a slash, which follows one.
    mkdirSync(folder.at('countersign-keys-1'));
    symlinkSync(folder.path, folder.at('way'));
    directories.push(folder.at('way/countersign-keys-1'), `${folder.at('countersign-keys-link')}/`);
    for (const keyDirectory of directories) {
      const url = await runningWith({ keyDirectory });
      await expect(findDemo(url, folder.path)).rejects.toThrow(
        `the keys of the demo at ${url} are out of reach: `,
      );
    }
  });

  describe('a ready file', () => {
    const announced = (pid: number, readyFile?: string) =>
      announce(
        { ...demo, pid, keyDirectory: folder.path },
        { scenarioText: 'logins: { a: {} }\n', readyFile },
      );

    it('is written for its owner only, with the scenario beside the keys', async () => {
      const readyFile = folder.at('ready.json');
      announced(process.pid, readyFile);
      expect(JSON.parse(readFileSync(readyFile, 'utf8'))).toEqual({ ...demo, keyDirectory: folder.path });
      for (const file of [readyFile, folder.at('scenario.yaml')])
        expect(statSync(file).mode & 0o777).toBe(0o600);
      expect((await settingsOf({ ...demo, keyDirectory: folder.path })).scenario.logins).toEqual({ a: {} });
    });

    it('is deleted at the end, unless another demo has replaced it', () => {
      const readyFile = folder.at('ready.json');
      const withdraw = announced(1, readyFile);
      const withdrawOther = announced(2, readyFile);
      withdraw();
      expect(existsSync(readyFile)).toBe(true);
      withdrawOther();
      expect(existsSync(readyFile)).toBe(false);
    });

    it('that cannot be written is an error, and leaves no part of one', () => {
      mkdirSync(folder.at('directory'));
      for (const readyFile of [folder.at('missing/ready.json'), folder.at('directory')])
        expect(() => announced(1, readyFile)).toThrow(`--ready-file ${readyFile} cannot be written: `);
      expect(readdirSync(folder.path).toSorted()).toEqual(['directory', 'scenario.yaml']);
    });

    it('of an earlier demo is deleted, also one that is still empty', () => {
      for (const content of [JSON.stringify({ ...demo, pid: 1 }), '']) {
        removeStaleReadyFile(folder.file('ready.json', content));
        expect(existsSync(folder.at('ready.json'))).toBe(false);
      }
      removeStaleReadyFile(folder.at('ready.json'));
    });

    it('is not what has another content, or is a link or a directory', () => {
      mkdirSync(folder.at('directory'));
      symlinkSync(folder.file('ready.json', JSON.stringify(demo)), folder.at('link'));
      for (const file of [folder.at('directory'), folder.at('link'), folder.file('other.json', '{}')]) {
        expect(() => removeStaleReadyFile(file)).toThrow(
          expect.objectContaining({
            message: `--ready-file ${file} exists and is not a ready file. Delete it, or choose another path.`,
            exit: 2,
          }),
        );
        expect(existsSync(file)).toBe(true);
      }
    });
  });
});

describe('the usage of a demo', () => {
  const folder = new Folder();
  afterAll(() => folder.remove());

  it('a demo listens for others only with --allow-anonymous', async () => {
    expect(await run(['demo', '--port', '0', '--host', '0.0.0.0'])).toEqual({
      code: 2,
      out: '',
      err: 'countersign demo: --host 0.0.0.0 lets others send requests without credentials: add --allow-anonymous if that is intended\nSee: countersign demo --help',
    });
  });

  it.each([
    [['rotat'], 'unexpected positional argument; did you mean "rotate"?'],
    [['--port', '65536'], '--port must be a port from 0 to 65535'],
    [['--request-timeout', '3'], '--request-timeout must be a duration with a unit, such as 500ms, 3s'],
    [['--scenario', '/nowhere.yaml'], '/nowhere.yaml does not exist. Check the path.'],
  ])('a demo rejects %j', async (argv, message) => {
    const { code, err } = await run(['demo', ...argv]);
    expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  });

  it.each(['gateway-port', 'gateway-admin-port'])('names --%s when that port is in use', async (option) => {
    const { port, close } = await listen(createServer());
    // Without logins, no keys are made.
    const scenario = folder.file('scenario.yaml', 'logins: {}\n');
    const ran = await run(['demo', '--port', '0', '--scenario', scenario, `--${option}`, String(port)]);
    await close();
    expect(ran).toEqual({
      code: 1,
      out: '',
      err: `Countersign cannot start: 127.0.0.1:${port} is in use, perhaps by another demo. Choose another port with --${option}, or free ones for all with --port 0.`,
    });
  });
});

it.each([
  ['http://127.0.0.1:9090', true],
  ['http://[::1]:9090', true],
  ['http://0.0.0.0:9090', false],
])('the welcome names the status page only where it is served without a token: %s', (adminUrl, isServed) => {
  const text = welcome({ proxyUrl: 'P', adminUrl, gatewayUrl: 'G', gatewayAdminUrl: 'GA' }, true, '');
  expect(text.includes(`Status page:        ${adminUrl}/\n`)).toBe(isServed);
  expect(text.includes('  countersign demo rotate --gateway-admin-url GA\n')).toBe(isServed);
  expect(text).not.toContain('curl');
});

it('the examples of the welcome are POST requests, and commands of the checkout in one', () => {
  const urls = { proxyUrl: 'P', adminUrl: 'http://[::1]:9090', gatewayUrl: 'G', gatewayAdminUrl: 'GA' };
  const text = welcome(urls, false, 'countersign');
  expect(text).toContain('  npm run -s countersign -- demo rotate --gateway-admin-url GA\n');
  const examples = text.match(/^ {2}curl .*/gm) ?? [];
  expect(examples.length).toBeGreaterThan(2);
  for (const example of examples) expect(example).toMatch(/ -X POST | -d /);
});
