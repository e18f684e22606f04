import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { check } from '../../src/cli/check/check.ts';
import { explain } from '../../src/cli/explain/explain.ts';
import { keys } from '../../src/cli/keys/keys.ts';
import { runCommandHere } from '../support/cli.ts';
import {
  KeysTestEnvironment,
  newControlKey,
  oldControlKey,
  oldKey,
} from '../support/keys-test-environment.ts';
import { itWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { describeVaults, vaultProgram } from '../support/stub-vault/describe-vaults.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const names = ['VAULT_ADDR', 'VAULT_TOKEN', 'VAULT_NAMESPACE', 'VAULT_CACERT'];
afterEach(() => {
  for (const name of names) delete process.env[name];
});

const podAuth = { method: 'approle', roleId: '${POD_ROLE}', secretIdFile: '/pod/secret-id' } as const;

/** With the configuration of a pod, whose Vault and files are not those of an operator's machine. */
function list(setup: KeysTestEnvironment, ...options: readonly string[]) {
  const vault = { address: 'http://127.0.0.1:1', auth: podAuth };
  const config = setup.writeConfig('pod.yaml', { keys: { source: 'vault', vault } });
  return setup.run('list', '--config', config, '--login', 'acme', ...options);
}

const done = { code: 0, out: expect.stringContaining('control_key') };

describeVaults('keys commands use', (server) => {
  const setup = new KeysTestEnvironment();
  let address: string;
  beforeAll(async () => {
    await setup.open(server.admin);
    ({ address } = server.admin);
    await setup.put({ control_key: oldControlKey });
  });
  afterAll(() => setup.close());
  afterEach(() => rmSync(setup.folder.at('.vault-token'), { force: true }));

  const wrong = 'no-such-token';

  it('VAULT_ADDR and VAULT_TOKEN before the token of vault login, and say so', async () => {
    Object.assign(process.env, { VAULT_ADDR: address, VAULT_TOKEN: rootToken });
    setup.folder.file('.vault-token', wrong);
    expect(await list(setup)).toEqual({ ...done, err: `Vault: ${address}, token: VAULT_TOKEN` });
  });

  it('the token of vault login without VAULT_TOKEN, or with an empty one', async () => {
    Object.assign(process.env, { VAULT_ADDR: address, VAULT_TOKEN: '' });
    const file = setup.folder.file('.vault-token', rootToken);
    expect(await list(setup)).toEqual({ ...done, err: `Vault: ${address}, token: ${file}` });
  });

  it('options before the variables', async () => {
    Object.assign(process.env, { VAULT_ADDR: 'http://127.0.0.1:2', VAULT_TOKEN: wrong });
    const options = ['--address', address, '--token-file', setup.folder.at('token')];
    expect(await list(setup, ...options)).toEqual({ ...done, err: `Vault: ${address}` });
  });

  if (server.isReal)
    it('what the program itself has stored', async () => {
      process.env['VAULT_ADDR'] = address;
      const login = spawnSync(vaultProgram, ['login', '-no-print', rootToken], { env: process.env });
      expect(login.status).toBe(0);
      expect(await list(setup)).toMatchObject(done);
    });
});

it.each([
  ['VAULT_ADDR', 'http://vault.example:8200', 'must use https unless the host is loopback'],
  ['VAULT_ADDR', 'unix:///run/vault.sock', 'must be'],
  ['VAULT_NAMESPACE', '../team', 'must be a namespace such as team/payments'],
])('%s=%s is a problem as in the configuration', async (name, value, message) => {
  const setup = await new KeysTestEnvironment().open();
  process.env[name] = value;
  expect(await list(setup)).toMatchObject({ code: 2, err: expect.stringContaining(`${name} ${message}`) });
  await setup.close();
});

itWith('openssl')('keys commands use VAULT_CACERT and VAULT_NAMESPACE', async () => {
  const setup = await new KeysTestEnvironment().open();
  const ca = new Ca(setup.folder.path, 'ca');
  const vault = new StubVault({ tls: ca.issue('server') });
  const address = await vault.listen();
  vault.put('gateway/sandbox/acme', { control_key: oldControlKey });
  const place = { VAULT_ADDR: address, VAULT_TOKEN: rootToken, VAULT_CACERT: ca.file };
  Object.assign(process.env, { ...place, VAULT_NAMESPACE: 'team/' });
  expect(await list(setup)).toMatchObject(done);
  expect(vault.seen.at(-1)?.headers['x-vault-namespace']).toBe('team');
  const stranger = new Ca(setup.folder.path, 'stranger');
  expect(await list(setup, '--ca-file', stranger.file)).toMatchObject({ code: 1 });
  await vault.close();
  await setup.close();
});

describe('the configuration of a pod, whose files and variables do not exist here', () => {
  const environment = new KeysTestEnvironment();
  let config: string;
  let token: string;

  beforeAll(async () => {
    await environment.open();
    await environment.put({ control_key: newControlKey, private_key: oldKey });
    const { address } = environment.admin;
    config = environment.writeConfig('pod.yaml', {
      proxy: { tls: { certFile: '/pod/tls.crt', keyFile: '/pod/tls.key' } },
      keys: { source: 'vault', vault: { address, auth: podAuth } },
      callers: [
        {
          name: 'billing',
          credentials: [{ tokenSha256: '${POD_TOKEN_SHA256}' }],
          allow: [{ environments: ['*'], operations: ['manager-balance'], logins: ['acme'] }],
        },
      ],
    });
    token = environment.folder.file('operator-token', rootToken);
  });
  afterAll(() => environment.close());

  /** Both outputs as one text. */
  async function run(...command: Parameters<typeof runCommandHere>) {
    const { code, out, err } = await runCommandHere(...command);
    return { code, text: [out, err].filter((text) => text !== '').join('\n') };
  }

  const balance = () => [
    '--target',
    '/sandbox/gw/api/v2/get-balance/manager/acme',
    '--form',
    environment.folder.file('form', ''),
  ];
  const requires = (name: string) => expect.stringContaining(`requires the environment variable ${name}`);

  it("is what explain, check --online and keys list use with the operator's token", async () => {
    const options = ['--config', config, '--token-file', token];
    expect(await run(explain, ...balance(), ...options)).toEqual({
      code: 0,
      text: expect.stringContaining('Authorization: OAuth oauth_consumer_key="acme"'),
    });
    const { code, out } = await runCommandHere(check, '--online', config, '--token-file', token, '--json');
    expect([code, JSON.parse(out)]).toMatchObject([0, { ok: true }]);
    const acme = ['--environment', 'sandbox', '--login', 'acme'];
    expect(await run(keys, 'list', ...options, ...acme)).toMatchObject({ code: 0 });
  });

  it('requires what a command uses: the variables of the login without a token, files and variables in check', async () => {
    const listed = await run(keys, 'list', '--config', config, '--environment', 'sandbox');
    expect(listed).toEqual({ code: 2, text: requires('POD_ROLE') });
    // Credentials of callers are not used.
    expect(listed.text).toMatch(/\n1 problem$/);
    const checked = await run(check, config);
    expect(checked).toEqual({ code: 2, text: requires('POD_TOKEN_SHA256') });
    expect(checked).toEqual({ code: 2, text: requires('POD_ROLE') });
    const other = environment.writeConfig('used.yaml', {
      environments: { sandbox: { baseUrl: '${POD_GATEWAY}', product: 'gw' } },
    });
    const online = await run(check, '--online', other, '--token-file', token);
    expect(online).toEqual({ code: 2, text: requires('POD_GATEWAY') });
  });

  it.each([
    [['--token-file', 'x'], '--token-file requires --online'],
    [['--ca-file', 'x'], '--ca-file requires --online'],
    [['--json'], '--json requires --online or --against'],
  ])('check rejects %j without --online', async (argv, message) => {
    const text = expect.stringContaining(`countersign check: ${message}\n`);
    expect(await run(check, config, ...argv)).toEqual({ code: 2, text });
  });

  it('--ca-file replaces the CA of the pod', async () => {
    const { address } = environment.admin;
    const vault = { address, auth: { method: 'token' as const, tokenFile: token }, caFile: '/pod/ca.crt' };
    const withCa = environment.writeConfig('ca.yaml', { keys: { source: 'vault', vault } });
    const argv = [...balance(), '--config', withCa, '--token-file', token];
    expect(await run(explain, ...argv)).toEqual({ code: 1, text: expect.stringContaining('/pod/ca.crt') });
    const ca = environment.folder.file('ca.crt', '');
    expect(await run(explain, ...argv, '--ca-file', ca)).toMatchObject({ code: 0 });
  });
});
