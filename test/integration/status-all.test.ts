import { createServer, type ServerResponse } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { readAll } from '../../src/cli/status/read-status.ts';
import { status } from '../../src/cli/status/status.ts';
import { Secret } from '../../src/secret.ts';
import { type CommandResult, runCommandHere } from '../support/cli.ts';
import { tokenCredential } from '../support/config.ts';
import { closedPort } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { describeWith } from '../support/requires.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

const run = (...argv: string[]): Promise<CommandResult> => runCommandHere(status, ...argv);
const [oldKey, newKey] = ['the old control key', 'the new control key'];

/**
 * Instances that share a gateway and a Vault, whose keys each of them reads anew with every request.
 *
 * @param lazy how many of them, the last ones, read their keys anew only after a 403
 */
async function startInstances(count: number, lazy = 0) {
  const vault = starts.closing(await new VaultTestEnvironment({ clock: () => Date.now() }).open());
  const put = (controlKey: string) => vault.admin.put('gateway/sandbox/acme', { control_key: controlKey });
  await put(oldKey);
  const { url, simulator } = await starts.simulator({ clock: () => Date.now(), keys: new Map() });
  const accept = (...keys: readonly string[]) =>
    simulator.keys.set('acme', {
      controlKeys: keys.map((key) => new Secret(key)),
      publicKeys: [],
    });
  accept(oldKey);
  const token = await vault.admin.token({ policies: ['countersign'], ttl: '1h' });
  const keysFor = (ttl: string) =>
    vaultKeys(vault.vault.address, { auth: { method: 'token', token } }, { cache: { ttl } });
  const start = async (config: ProxyOptions['config'] = {}) => {
    const proxy = await starts.proxy({ gateway: url, config: { keys: keysFor('0ms'), ...config } });
    // An instance listens before it has reached Vault.
    await until(async () => (await fetch(new URL('/readyz', proxy.adminUrl))).ok, 'the instance is ready');
    return proxy;
  };
  const proxies = await Promise.all(
    Array.from({ length: count }, (_, nth) => start(nth < count - lazy ? {} : { keys: keysFor('1h') })),
  );
  return { proxies, put, accept, start };
}

const all = (proxies: readonly Pick<TestProxy, 'adminUrl'>[]): string =>
  proxies.map(({ adminUrl }) => adminUrl).join(', ');

const hostOf = ({ adminUrl }: Pick<TestProxy, 'adminUrl'>): string => new URL(adminUrl).host;

/** The instance has read so many versions of its key. */
async function hasRead(proxy: TestProxy, versions: number): Promise<void> {
  await until(async () => {
    await proxy.balance();
    const { keys } = await proxy.instanceStatus();
    return keys.list[0]?.versions.length === versions;
  });
}

/** The lines of the table of keys, with single spaces. */
const keyLines = (out: string): string[] =>
  (out.split('\nKeys\n')[1] ?? '').split('\n').map((line) => line.trim().replaceAll(/ +/g, ' '));

describe('countersign status --all', () => {
  it('shows how far a rotation is, on ten instances', async () => {
    const { proxies, put, accept } = await startInstances(10, 3);
    await Promise.all(proxies.map((proxy) => proxy.balance()));
    const before = await run('--all', all(proxies));
    expect(before).toMatchObject({ code: 0, err: '' });
    expect(before.out).toMatch(/^Well: 10 of 10 instances ready at /);
    expect(keyLines(before.out).slice(1)).toEqual([
      expect.stringMatching(/^sandbox\/acme control_key 1 \d+ s 10 of 10 10 10 0$/),
    ]);

    await put(newKey);
    await Promise.all(proxies.slice(0, 7).map((proxy) => hasRead(proxy, 2)));
    const during = await run('--all', all(proxies));
    expect(keyLines(during.out).slice(1)).toEqual([
      // Each that has read it has tried it with a query, which the gateway rejected.
      expect.stringMatching(/^sandbox\/acme control_key 2 \d+ s 7 of 10 \d 0 \d$/),
      expect.stringMatching(/^not read by (\S+, ){2}\S+$/),
      expect.stringMatching(/^1 \d+ s 10 of 10 \d+ \d+ 0$/),
    ]);
    for (const proxy of proxies.slice(7)) expect(during.out).toContain(hostOf(proxy));

    accept(newKey);
    await Promise.all(proxies.slice(0, 5).map((proxy) => proxy.balance()));
    await Promise.all(proxies.slice(0, 5).map((proxy) => proxy.balance()));
    const switched = await run('--all', all(proxies), '--json');
    const shown = JSON.parse(switched.out);
    expect(shown).toMatchObject({ well: expect.any(Boolean), instances: { length: 10 } });
    const [newest, older] = shown.keys[0].versions;
    expect(newest.acceptedOn).toEqual(expect.arrayContaining(proxies.slice(0, 5).map(hostOf)));
    expect(newest.signsOn).toEqual(expect.arrayContaining(proxies.slice(0, 5).map(hostOf)));
    expect(older.signsOn).toEqual(expect.arrayContaining(proxies.slice(7).map(hostOf)));
    expect(shown.findings).toContainEqual(
      expect.objectContaining({ severity: 'info', code: 'signing-differs' }),
    );

    await Promise.all(proxies.map((proxy) => hasRead(proxy, 2)));
    await until(async () => {
      await Promise.all(proxies.map((proxy) => proxy.balance()));
      const { out } = await run('--all', all(proxies));
      return /^sandbox\/acme control_key 2 \d+ s 10 of 10 10 10 0$/.test(keyLines(out)[1] ?? '');
    });
  });

  it('shows one that is stopped, one that hangs and one with another configuration, and exits with 1', async () => {
    const { proxies, start } = await startInstances(3);
    const [first, stopped] = proxies;
    if (first === undefined || stopped === undefined) throw new Error('no instances');
    const other = await start({ signing: { maxQueue: 7 } });
    const hung = starts.closing(await listen(createTcpServer(() => {})));
    await stopped.stop();
    const address = `http://127.0.0.1:${hung.port}`;
    const began = performance.now();
    const { code, out, err } = await run('--all', `${all([...proxies, other])},${address}`, '--timeout', '1');
    expect(performance.now() - began).toBeLessThan(4_000);
    expect([code, err]).toEqual([1, '']);
    const text = out.replaceAll(/\s+/g, ' ');
    expect(text).toMatch(/^NOT WELL: 3 of 5 instances ready /);
    expect(text).toContain('BAD 2 of 5 instances gave no status.');
    expect(text).toContain(`${hostOf(stopped)} - NO STATUS - - refused the connection.`);
    expect(text).toContain(`127.0.0.1:${hung.port} - NO STATUS - - did not respond within 1 s.`);
    expect(text).toMatch(
      /warn Instances have different configuration files in effect: [0-9a-f]{12} on 2, [0-9a-f]{12} on 1\./,
    );
    expect(text).toContain(`(${hostOf(other)})`);
  });

  it('exits with 1 for a finding of --fail-on, of an instance or between instances', async () => {
    const { proxies, start } = await startInstances(1);
    const other = await start({ signing: { maxQueue: 7 } });
    expect((await run('--all', all(proxies), '--fail-on', 'warn')).code).toBe(0);
    expect((await run('--all', all([...proxies, other]))).code).toBe(0);
    expect((await run('--all', all([...proxies, other]), '--fail-on', 'warn')).code).toBe(1);
    const dry = await start({
      callers: [{ name: 'trial', mode: 'dry-run', credentials: [{ anonymous: true }], allow: [] }],
    });
    expect((await run('--all', dry.adminUrl, '--fail-on', 'warn')).code).toBe(1);
  });

  it('reads each address of a name once, with the name for its certificate only', async () => {
    const { proxies } = await startInstances(1);
    const url = new URL(proxies[0]?.adminUrl ?? '');
    const looked: string[] = [];
    const result = await readAll(
      {
        urls: [new URL(`http://instances.test:${url.port}/status.json`), new URL('/status.json', url)],
        access: { token: undefined, tls: {}, option: '--all' },
        allowPlaintext: false,
      },
      {
        timeout: 2_000,
        clock: Date.now,
        resolve: async (host) => {
          looked.push(host);
          return [
            { address: '127.0.0.1', family: 4 },
            { address: '127.0.0.2', family: 4 },
            { address: '127.0.0.1', family: 4 },
            // The same instances once more.
            { address: '::1', family: 6 },
          ];
        },
      },
    );
    expect(looked).toEqual(['instances.test']);
    expect(result.instances.map(({ address, problem }) => [address, problem === null])).toEqual([
      [`127.0.0.1:${url.port}`, true],
      [`127.0.0.2:${url.port}`, false],
    ]);
  });

  it('rejects what it cannot do, before it sends anything', async () => {
    const token = ['--token-env', 'PATH_OF_NOTHING'];
    for (const [argv, message] of [
      [['--all', 'http://a.test', '--url', 'http://b.test'], '--all and --url are mutually exclusive'],
      [['--all', 'ftp://a.test'], '--all must be http://HOST:PORT or https://HOST:PORT'],
      [['--all', 'http://user:secret@a.test'], '--all must not hold credentials: use --token-file FILE'],
      [['--server-name', 'a.test'], '--server-name and --allow-plaintext are only valid with --all'],
      [['--all', 'http://127.0.0.1:9', '--timeout', '0'], '--timeout must be a whole number from 1 to 60'],
      [['--all', 'http://127.0.0.1:9', ...token], 'the variable of --token-env is empty or not set'],
    ] as const) {
      const { code, err } = await run(...argv);
      expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(message) });
      expect(err).not.toContain('secret');
    }
    const many = Array.from({ length: 201 }, (_, at) => `http://127.0.0.${(at % 250) + 1}:9`).join();
    expect((await run('--all', many)).err).toContain('--all names 201 instances; at most 200 can be shown');
  });

  it('sends the token without TLS to loopback, and beyond only if that is allowed', async () => {
    const requests: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      requests.push(request.headers.authorization);
      response.writeHead(401).end();
    });
    const { port } = starts.closing(await listen(server));
    const file = starts.folder().file('token', 'planted-token\n');
    const near = await run('--all', `http://127.0.0.1:${port}`, '--token-file', file);
    expect(near.out).toContain('rejected the token');
    expect(requests).toEqual(['Bearer planted-token']);
    const other = await run('--all', `http://127.0.0.2:${closedPort}`, '--token-file', file);
    expect(other.out.replaceAll(/\s+/g, ' ')).toContain(
      'refused the connection. Is the instance running, and is this admin.port? Check --all.',
    );
    // Loopback in a form that does not count as such.
    const far = ['--all', `http://[::ffff:127.0.0.1]:${port}`, '--token-file', file];
    const rejected = await run(...far);
    expect(rejected).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        `the token would be sent in plain text to [::ffff:7f00:1]:${port}. Use https`,
      ),
    });
    const withoutToken = await run('--all', `http://[::ffff:127.0.0.1]:${closedPort}`);
    expect(withoutToken.out).toContain('refused the connection');
    expect(rejected.err + near.out).not.toContain('planted');
    expect(requests).toHaveLength(1);
    expect((await run(...far, '--allow-plaintext')).out).toContain('rejected the token');
    expect(requests).toEqual(['Bearer planted-token', 'Bearer planted-token']);
  });

  it('with a name that has no address says so', async () => {
    const reading = (code: string) =>
      readAll(
        {
          urls: [new URL('http://instances.test:9090/status.json')],
          access: { token: undefined, tls: {} },
          allowPlaintext: false,
        },
        {
          timeout: 1_000,
          clock: Date.now,
          resolve: () => Promise.reject(Object.assign(new Error('x'), { code })),
        },
      );
    const advice = 'Is it the name of the headless Service, and is an instance running?';
    await expect(
      readAll(
        {
          urls: [new URL('http://instances.test/status.json')],
          access: { token: undefined, tls: {} },
          allowPlaintext: false,
        },
        { timeout: 1_000, clock: Date.now, resolve: async () => [] },
      ),
    ).rejects.toThrow('--all names no instance');
    await expect(reading('ENOTFOUND')).rejects.toThrow(`instances.test has no address. ${advice}`);
    await expect(reading('EAI_AGAIN')).rejects.toThrow(
      `instances.test cannot be looked up (EAI_AGAIN). ${advice}`,
    );
  });

  it('keeps updating with --watch, one line of JSON each', async () => {
    const { proxies } = await startInstances(1);
    const command = run('--all', all(proxies), '--watch', '--interval', '1', '--json');
    setTimeout(() => process.emit('SIGINT'), 1_500);
    const { code, out } = await command;
    expect(code).toBe(0);
    const lines = out.split('\n').map((line) => JSON.parse(line));
    expect(lines.length).toBeGreaterThan(1);
    expect(lines.every(({ well }) => well === true)).toBe(true);
  });
});

describe('an instance that is hostile is a row', () => {
  it.each<[string, (response: ServerResponse) => unknown, string]>([
    [
      'with an endless response',
      (response) => {
        const more = (): void => {
          if (response.socket?.destroyed === false) response.write('x'.repeat(65_536), more);
        };
        more();
      },
      'sent too long a response for a status',
    ],
    [
      'with a redirect',
      (response) => response.writeHead(302, { Location: 'http://x/' }).end(),
      'HTTP status 302',
    ],
    ['without JSON', (response) => response.end('<html>'), 'did not respond with JSON'],
    ['with other JSON', (response) => response.end('{"well":true}'), 'sent JSON that is no status'],
    [
      'with control sequences',
      (response) => response.end('{"process":{"version":"\\u001b[2J9.9"},"well":true}'),
      'It is version ?[2J9.9',
    ],
    [
      'that drips',
      (response) => {
        const timer = setInterval(() => response.write(' '), 50);
        response.on('close', () => clearInterval(timer));
      },
      'did not respond within 1 s',
    ],
    [
      'with a huge header',
      (response) => response.writeHead(200, { x: 'y'.repeat(100_000) }).end(),
      'HPE_HEADER_OVERFLOW',
    ],
  ])('%s', async (_what, respond, problem) => {
    const { port } = starts.closing(
      await listen(createServer((_request, response) => void respond(response))),
    );
    const { code, out } = await run('--all', `http://127.0.0.1:${port}`, '--timeout', '1');
    expect(code).toBe(1);
    expect(out.replaceAll(/\s+/g, ' ')).toContain(problem);
    expect(out).toMatch(/^[ -~\n]*$/);
    expect(out).toMatch(/^NOT WELL: 0 of 1 instance ready/);
  });
});

describeWith('openssl')('over TLS (needs the program openssl)', () => {
  it('the certificate must have the name that was given, whatever the address', async () => {
    const folder = starts.folder();
    const ca = new Ca(folder.path, 'ca');
    const { certFile, keyFile } = ca.issue('admin', { names: 'DNS:countersign-admin.payments.svc' });
    const token = 'token-of-the-status-page';
    const proxy = await starts.proxy({
      config: { admin: { port: 0, tls: { certFile, keyFile }, ...tokenCredential(token) } },
    });
    const { port } = new URL(proxy.adminUrl);
    const file = folder.file('token', token);
    const more = ['--ca-file', ca.file, '--token-file', file, '--timeout', '2'];
    const read = (...argv: string[]) => run(...argv, ...more);
    const named = ['--server-name', 'countersign-admin.payments.svc'];
    expect(await read('--all', `https://localhost:${port}`, ...named)).toMatchObject({ code: 0 });
    for (const argv of [[], ['--server-name', 'countersign-admin.other.svc']]) {
      const { code, out } = await read('--all', `https://localhost:${port}`, ...argv);
      expect({ code, out: out.replaceAll(/\s+/g, ' ') }).toEqual({
        code: 1,
        out: expect.stringContaining('has no valid certificate (ERR_TLS_CERT_ALTNAME_INVALID)'),
      });
    }
    const other = new Ca(folder.path, 'other');
    const wrong = [
      '--all',
      `https://localhost:${port}`,
      ...named,
      '--ca-file',
      other.file,
      '--token-file',
      file,
    ];
    expect((await run(...wrong)).out).toContain('has no valid certificate');
  });
});
