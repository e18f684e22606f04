import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { KeysTestEnvironment, oldControlKey } from '../support/keys-test-environment.ts';
import { describeWhere, describeWith, itWhere } from '../support/requires.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import {
  devServer,
  noDevServer,
  noRealServer,
  type RunningVault,
  vaultTargets,
} from '../support/stub-vault/real-vault.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const names = ['VAULT_ADDR', 'VAULT_TOKEN', 'VAULT_NAMESPACE', 'VAULT_CACERT'];
afterEach(() => {
  for (const name of names) delete process.env[name];
});

/** With the configuration of a pod, whose Vault and files are not those of an operator's machine. */
function list(setup: KeysTestEnvironment, ...options: readonly string[]) {
  const auth = { method: 'approle', roleId: '${POD_ROLE}', secretIdFile: '/pod/secret-id' } as const;
  const vault = { address: 'http://127.0.0.1:1', auth };
  const config = setup.writeConfig('pod.yaml', { keys: { source: 'vault', vault } });
  return setup.run('list', '--config', config, '--login', 'acme', ...options);
}

const done = { code: 0, out: expect.stringContaining('control_key') };

for (const { name, open } of vaultTargets(process.env)) {
  describeWhere(open !== undefined, noRealServer)(`with ${name}, keys commands use`, () => {
    const setup = new KeysTestEnvironment();
    let server: RunningVault;
    beforeAll(async () => {
      if (open === undefined) return;
      server = await open();
      await setup.open(server);
      await setup.put({ control_key: oldControlKey });
    }, 20_000);
    afterAll(async () => {
      if (open === undefined) return;
      await setup.close();
      await server.close();
    });
    afterEach(() => rmSync(setup.folder.at('.vault-token'), { force: true }));

    const wrong = 'no-such-token';

    it('VAULT_ADDR and VAULT_TOKEN before the token of vault login, and say so', async () => {
      Object.assign(process.env, { VAULT_ADDR: server.address, VAULT_TOKEN: server.rootToken });
      setup.folder.file('.vault-token', wrong);
      const err = `Vault: ${server.address}, token: VAULT_TOKEN`;
      expect(await list(setup)).toEqual({ ...done, err });
    });

    it('the token of vault login without VAULT_TOKEN, or with an empty one', async () => {
      Object.assign(process.env, { VAULT_ADDR: server.address, VAULT_TOKEN: '' });
      const file = setup.folder.file('.vault-token', server.rootToken);
      expect(await list(setup)).toEqual({ ...done, err: `Vault: ${server.address}, token: ${file}` });
    });

    it('options before the variables', async () => {
      Object.assign(process.env, { VAULT_ADDR: 'http://127.0.0.1:2', VAULT_TOKEN: wrong });
      const options = ['--address', server.address, '--token-file', setup.folder.at('token')];
      expect(await list(setup, ...options)).toEqual({ ...done, err: `Vault: ${server.address}` });
    });

    it('the configuration without any of them', async () => {
      const { code, err } = await list(setup);
      expect([code, err]).toEqual([2, expect.stringContaining('environment variable POD_ROLE')]);
    });

    const { program = '' } = devServer(process.env);
    if (name !== 'the stub')
      itWhere(program !== '', noDevServer)('what the program itself has stored', async () => {
        process.env['VAULT_ADDR'] = server.address;
        const login = spawnSync(program, ['login', '-no-print', server.rootToken], { env: process.env });
        expect(login.status).toBe(0);
        expect(await list(setup)).toMatchObject(done);
      });
  });
}

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

describeWith('openssl')('with TLS and namespaces', () => {
  it('keys commands use VAULT_CACERT and VAULT_NAMESPACE', async () => {
    const setup = await new KeysTestEnvironment().open();
    const ca = new Ca(setup.folder.path, 'ca');
    const vault = new StubVault({ tls: ca.issue('server'), namespaces: ['team'] });
    const admin = new VaultAdmin(await vault.listen(), rootToken, () => ca.cert);
    const data = { control_key: oldControlKey };
    const inTeam = { 'X-Vault-Namespace': 'team' };
    await admin.request('POST', 'secret/data/gateway/sandbox/acme', { data }, inTeam);
    const place = { VAULT_ADDR: vault.address, VAULT_TOKEN: rootToken, VAULT_CACERT: ca.file };
    Object.assign(process.env, place);
    expect(await list(setup)).toMatchObject({ code: 1 });
    process.env['VAULT_NAMESPACE'] = 'team/';
    expect(await list(setup)).toMatchObject(done);
    const stranger = new Ca(setup.folder.path, 'stranger');
    expect(await list(setup, '--ca-file', stranger.file)).toMatchObject({ code: 1 });
    await vault.close();
    await setup.close();
  });
});
