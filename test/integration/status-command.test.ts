import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { status } from '../../src/cli/status/status.ts';
import { statusSchema, withFindings } from '../../src/observability/status/schema.ts';
import { type CommandResult, run as runCli, runCommandHere } from '../support/cli.ts';
import { configFor, tokenCredential } from '../support/config.ts';
import { closedPort } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { describeWith } from '../support/requires.ts';
import { emptyStatus, rotationStatus, troubleStatus } from '../support/status.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const start = harness();
const trouble = troubleStatus();

const run = (...argv: string[]): Promise<CommandResult> => runCommandHere(status, ...argv);

async function expectError(code: number, message: string, ...argv: string[]): Promise<void> {
  const result = await run(...argv);
  expect(result).toEqual({ code, out: '', err: expect.stringContaining(message) });
  expect(result.err).not.toContain('planted');
}

/** A server that responds to everything like this. @returns its address and the requests */
async function serving(respond: (response: ServerResponse) => void) {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    respond(response);
  });
  const { port } = start.closing(await listen(server));
  return { url: `http://127.0.0.1:${port}`, requests };
}

const json = (body: unknown, statusCode = 200) =>
  serving((response) => response.writeHead(statusCode).end(JSON.stringify(body)));

describe('countersign status', () => {
  it('prints the status, and exits with 1 if the instance is not ready', async () => {
    const ready = await json(trouble);
    expect(await run('--url', ready.url)).toMatchObject({
      code: 0,
      out: expect.stringMatching(
        new RegExp(`^Ready, not well: ${ready.url} at .*\n {2}BAD [^]*production/acme`),
      ),
      err: '',
    });
    expect(ready.requests).toMatchObject([{ method: 'GET', url: '/status.json' }]);
    expect(ready.requests[0]?.headers).not.toHaveProperty('authorization');
    const health = { ready: false, reasons: ['draining' as const], warnings: [] };
    const unready = await json(withFindings({ ...trouble, health }));
    expect(await run('--url', `${unready.url}/`)).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^Not ready: [^]*\n {2}BAD {3}Shutting down\. /),
    });
  });

  it('prints JSON in plain ASCII that is the same status', async () => {
    const odd = { ...trouble, runbookUrl: 'https://wiki.example/\u009b31m\u202e' };
    const { url } = await json(odd);
    const { code, out } = await run('--json', '--url', `${url}/status.json`);
    expect(code).toBe(0);
    expect(out).toMatch(/^[ -~\n]*$/);
    expect(JSON.parse(out)).toEqual(odd);
  });

  it.each([
    [404, 'has no status page. Beyond loopback it is off unless admin.tokenSha256 is set; or this is not'],
    [
      421,
      'does not accept this host name. Use an IP address in --url, or add the name to admin.allowedHosts.',
    ],
    [302, 'responded with HTTP status 302 instead of 200. Check --url.'],
  ])('says what to do about HTTP status %i', async (code, advice) => {
    const { url } = await json({}, code);
    await expectError(1, `countersign status: ${url} ${advice}`, '--url', url);
  });

  it('says what to do if nothing listens, or the host is not known', async () => {
    const url = `http://127.0.0.1:${closedPort}`;
    const advice = 'refused the connection. Is the instance running, and is this admin.port? Check --url.';
    await expectError(1, `countersign status: ${url} ${advice}`, '--url', url);
    expect((await run('--url', 'http://no-such-host.invalid')).err).toMatch(
      /unknown host name|cannot be reached/,
    );
  });

  it('follows no redirect with the token, which may come from standard input', async () => {
    const other = await json(trouble);
    const { url, requests } = await serving((response) =>
      response.writeHead(307, { Location: other.url }).end(),
    );
    const argv = ['status', '--url', url, '--token-file', '-'];
    expect(await runCli(argv, 'piped-token\n')).toMatchObject({ code: 1 });
    expect(requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer piped-token']);
    expect(other.requests).toEqual([]);
    expect(await runCli(argv, '')).toMatchObject({
      code: 2,
      err: expect.stringContaining('standard input is empty'),
    });
  });

  it.each([
    ['bad', 1, 1],
    ['warn', 0, 1],
    ['info', 0, 0],
  ] as const)(
    '--fail-on for a finding that is %s: bad exits with %i, warn with %i',
    async (one, bad, warn) => {
      const all = [...trouble.findings, ...rotationStatus().findings];
      const findings = all.filter(({ severity }) => severity === one);
      const { url } = await json({ ...emptyStatus(), findings });
      const codeOf = async (...options: string[]) => (await run('--url', url, ...options)).code;
      expect(await codeOf()).toBe(0);
      expect(await codeOf('--fail-on', 'bad')).toBe(bad);
      expect(await codeOf('--fail-on', 'warn', '--json')).toBe(warn);
    },
  );
});

describe('countersign status of a running instance', () => {
  it('shows its findings and keys', async () => {
    const { url: gateway } = await start.simulator();
    const proxy = await start.proxy({ gateway });
    await proxy.balance();
    const { code, out, err } = await run('--url', proxy.adminUrl);
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(
      new RegExp(
        `^Ready, not well: ${proxy.adminUrl} at .*\n {2}BAD +The clock of the gateway of sandbox is`,
      ),
    );
    expect(out).toMatch(/^ {2}sandbox\/acme {2}Control key {2}version \d+ +In use +/m);
    const { out: json } = await run('--url', proxy.adminUrl, '--json');
    expect(json).toMatch(/^\{\n {2}"/);
    expect(statusSchema.parse(JSON.parse(json))).toMatchObject({ health: { ready: true } });
  });

  it('needs the token beyond loopback', async () => {
    const token = 'correct-token';
    const admin = { host: '0.0.0.0', port: 0, ...tokenCredential(token) };
    const url = (await start.proxy({ config: { admin } })).adminUrl.replace('0.0.0.0', '127.0.0.1');
    const given = (text: string) => ['--url', url, '--token-file', start.folder().file('token', text)];
    await expectError(1, `${url} requires a token. Give it with --token-file FILE.`, '--url', url);
    const advice = 'Compare its SHA-256 with admin.tokenSha256 of the configuration in effect.';
    await expectError(1, `${url} rejected the token. ${advice}`, ...given('wrong-token'));
    expect(await run(...given(`${token}\n`))).toMatchObject({ code: 0, err: '' });
  });
});

describe('countersign status without --url, where a configuration is set', () => {
  afterEach(() => {
    delete process.env['COUNTERSIGN_CONFIG'];
    delete process.env['COUNTERSIGN_ADMIN_PORT'];
  });

  it('asks the admin port of that instance', async () => {
    const { adminUrl } = await start.proxy({});
    const port = Number(new URL(adminUrl).port);
    const text = JSON.stringify({ ...configFor('http://127.0.0.1:9'), admin: { port } });
    const config = start.folder().file('c.yaml', text);
    const shown = { code: 0, out: expect.stringContaining(adminUrl) };
    expect(await run('--config', config)).toMatchObject(shown);
    process.env['COUNTERSIGN_CONFIG'] = config;
    expect(await run()).toMatchObject(shown);
    process.env['COUNTERSIGN_CONFIG'] = config.replace('c.yaml', 'none.yaml');
    await expectError(2, 'is not valid');
    delete process.env['COUNTERSIGN_CONFIG'];
    process.env['COUNTERSIGN_ADMIN_PORT'] = String(port);
    expect(await run()).toMatchObject(shown);
    process.env['COUNTERSIGN_ADMIN_PORT'] = 'x';
    await expectError(2, 'COUNTERSIGN_ADMIN_PORT must be a port');
  });

  it.each([
    ['0.0.0.0', '127.0.0.1'],
    ['::', '127.0.0.1'],
    ['::1', '[::1]'],
  ])('asks an address of the host %s', async (host, address) => {
    const admin = { host, port: closedPort };
    const text = JSON.stringify({ ...configFor('http://127.0.0.1:9'), admin });
    const config = start.folder().file('config.yaml', text);
    await expectError(1, `: http://${address}:${closedPort} `, '--config', config);
  });
});

describeWith('openssl')('countersign status of an admin port with TLS', () => {
  const invalid = 'has no valid certificate';

  it.each([false, true])('has its certificate from the configuration; client CA: %s', async (clients) => {
    const folder = start.folder();
    const ca = new Ca(folder.path, 'ca');
    // As for a Service: the address is not among its names.
    const names = 'DNS:countersign-admin.payments.svc, DNS:localhost';
    const { certFile, keyFile } = ca.issue('admin', { names });
    const tls = { certFile, keyFile, ...(clients ? { clientCaFile: ca.file } : {}) };
    const { adminUrl } = await start.proxy({ config: { admin: { port: 0, tls } } });
    const admin = { port: Number(new URL(adminUrl).port), tokenSha256: '${UNSET_IN_THIS_SHELL}' };
    const config = (own: object) => {
      const text = JSON.stringify({ ...configFor('http://127.0.0.1:9'), admin: { ...admin, tls: own } });
      return ['--config', folder.file('config.yaml', text)];
    };
    const client = ca.issue('operator');
    const given = clients ? ['--cert-file', client.certFile, '--key-file', client.keyFile] : [];
    expect(await run(...config(tls), ...given)).toMatchObject({
      code: 0,
      out: expect.stringContaining(`Ready: ${adminUrl} at `),
      err: '',
    });
    if (clients)
      await expectError(1, 'requires a client certificate of admin.tls.clientCaFile.', ...config(tls));
    const byName = adminUrl.replace('127.0.0.1', 'localhost');
    expect(await run('--url', byName, '--ca-file', ca.file, ...given)).toMatchObject({ code: 0, err: '' });
    // Neither another certificate of the same CA is accepted nor, by its CA, one without the name.
    const other = ca.issue('other', { names });
    await expectError(1, `${invalid} (`, ...config({ ...tls, certFile: other.certFile }), ...given);
    const byCa = ['--url', adminUrl, '--ca-file', ca.file, ...given];
    await expectError(1, `${invalid} (ERR_TLS_CERT_ALTNAME_INVALID)`, ...byCa);
  });

  it('does not accept a certificate that the same intermediate CA issued', async () => {
    const folder = start.folder();
    const ca = new Ca(folder.path, 'ca');
    const [configured, other] = [ca.issue('configured'), ca.issue('other')];
    const chain = folder.file('chain.pem', `${String(configured.cert)}${String(ca.cert)}`);
    const server = createTlsServer({ cert: other.cert, key: other.key }, (_request, response) =>
      response.end(JSON.stringify(trouble)),
    );
    const { port } = start.closing(await listen(server));
    const admin = { port, tls: { certFile: chain, keyFile: configured.keyFile } };
    const config = folder.file('config.yaml', JSON.stringify({ ...configFor('http://127.0.0.1:9'), admin }));
    await expectError(1, invalid, '--config', config);
  });
});

describe('countersign status at a server that is none of ours', () => {
  it('ends with a message for what is not HTTP', async () => {
    const server = createTcpServer((socket) => socket.on('error', () => {}).end('\u001b[31mhello'));
    const { port } = start.closing(await listen(server));
    await expectError(1, 'did not respond with HTTP (', '--url', `http://127.0.0.1:${port}`);
  });

  it.each([
    ['HTML', '<html>', 'did not respond with JSON. Is it the admin port? Check --url.'],
    [
      'a future version',
      JSON.stringify({ ...trouble, process: { ...trouble.process, version: '9.0.0', more: 1 } }),
      '(see process). It is version 9.0.0: use the command of the same version, such as that of its image.',
    ],
    [
      'control characters',
      '{"\\u001b[31m":1,"process":{"version":"\\u001b]0;x\\u0007"}}',
      'It is version ?]0;x?:',
    ],
  ])('ends with a message for %s', async (_what, body, message) => {
    const { url } = await serving((response) => response.end(body));
    await expectError(1, message, '--url', url);
    expect((await run('--url', url)).err).toMatch(/^[ -~]*$/);
  });
});

describe('the options of countersign status', () => {
  const token = (text: string): string => start.folder().file('token', text);

  it.each([
    [() => ['--url', 'localhost:9090'], '--url must be http://HOST:PORT or https://HOST:PORT'],
    [() => ['--url', 'http://a:planted@127.0.0.1'], '--url must not hold credentials: use --token-file FILE'],
    [() => ['--url', 'http://127.0.0.1:9/?a'], '--url must be http://HOST:PORT or https://HOST:PORT'],
    [() => ['--config', 'x'], '--url and --config are mutually exclusive'],
    [() => ['--cert-file', 'x'], '--cert-file and --key-file are only valid together'],
    [() => ['--token-file', token('')], 'is empty: it must hold the token and nothing else'],
    [() => ['--token-file', token('planted\nplanted')], 'has more than one line'],
    [() => ['--token-file', token('planted\u00a0')], 'ends with a no-break space (U+00A0); remove it'],
    [() => ['--fail-on', 'info'], '--fail-on must be warn or bad\nSee: countersign status --help'],
  ])('are checked: %#', async (argv, message) => {
    await expectError(2, message, '--url', 'http://127.0.0.1:9', ...argv());
  });

  it('--ca-file is not for the certificate of a configuration', async () => {
    await expectError(2, '--ca-file and --config are mutually exclusive', '--config', 'x', '--ca-file', 'x');
  });
});
