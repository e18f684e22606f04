import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Folder } from '../support/folder.ts';
import { KeysTestEnvironment } from '../support/keys-test-environment.ts';
import { root } from '../support/sources.ts';
import type { VaultAdmin } from '../support/stub-vault/admin.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { describeRealVault, vaultProgram } from '../support/stub-vault/describe-vaults.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { permittedBy, permittedTo, policyNames, transitActions } from '../support/vault-policies.ts';

// Each run of the script starts the program a dozen times.
jest.setTimeout(120_000);

const segment = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
const reviewer = [{ alg: 'RS256', kid: '1' }, { sub: 'system:serviceaccount:vault:reviewer' }].map(segment);

/** The settings in Vault after a run of setup.sh, as the server reports them. */
const present = [
  'auth/kubernetes/config',
  'auth/kubernetes/role/countersign-production',
  'auth/approle/role/countersign-production',
  'auth/approle/role/countersign-production/role-id',
  'sys/policies/acl/countersign-production-proxy',
  'sys/policies/acl/countersign-production-platform',
];

describeRealVault('deploy/vault/setup.sh', (server) => {
  let folder: Folder;
  let admin: VaultAdmin;
  let everything: Record<string, string>;

  beforeAll(async () => {
    folder = new Folder();
    ({ admin } = server);
    mkdirSync(join(folder.path, 'bin'));
    symlinkSync(vaultProgram, join(folder.path, 'bin/vault'));
    const [ca] = ['ca', 'other'].map((name) => new Ca(folder.path, name).file);
    everything = {
      AUTH: 'approle kubernetes',
      KUBERNETES_HOST: 'https://127.0.0.1:6443',
      KUBERNETES_CA_FILE: ca ?? '',
      KUBERNETES_REVIEWER_JWT_FILE: folder.file('reviewer.jwt', [...reviewer, 'c2lnbmF0dXJl'].join('.')),
      KUBERNETES_DISABLE_LOCAL_CA_JWT: 'true',
      KUBERNETES_NAMESPACE: 'payments',
      TOKEN_TTL: '30m',
      SECRET_ID_TTL: '24h',
    };
  });

  afterAll(() => folder.remove());

  beforeEach(async () => {
    for (const mount of ['approle', 'kubernetes']) await admin.request('DELETE', `sys/auth/${mount}`);
  });

  /** Runs the shell script with the program `vault` and this token. */
  function shell(options: readonly string[], token: string, environment: Record<string, string> = {}) {
    const PATH = `${folder.path}/bin:/usr/bin:/bin`;
    const env = {
      PATH,
      HOME: folder.path,
      VAULT_ADDR: admin.address,
      VAULT_TOKEN: token,
      ENVIRONMENT: 'production',
      ...environment,
    };
    return spawnSync('sh', options, { cwd: folder.path, env, encoding: 'utf8' });
  }

  function setUp(environment: Record<string, string>, token = rootToken) {
    const script = join(root, 'deploy/vault/setup.sh');
    const { status, stdout, stderr } = shell([script], token, environment);
    return { failed: status !== 0, done: stdout.includes('Done'), stdout, stderr };
  }

  const succeeds = { failed: false, done: true };
  const fails = { failed: true, done: false };

  /** Without what every write of a policy changes. */
  async function state(): Promise<unknown[]> {
    const read = async (path: string) => ({ ...(await admin.request('GET', path)).data });
    const all = await Promise.all(present.map(read));
    return all.map(({ modified: _modified, version: _version, ...settings }) => settings);
  }

  it('sets everything up, and then changes only the settings that are given anew', async () => {
    const formats = { VAULT_FORMAT: 'json', BAO_FORMAT: 'json' };
    expect(setUp({ ...everything, ...formats })).toMatchObject({ ...succeeds, stderr: '' });
    const before = await state();
    expect(before[0]).toMatchObject({
      kubernetes_host: 'https://127.0.0.1:6443',
      kubernetes_ca_cert: readFileSync(join(folder.path, 'ca.crt'), 'utf8'),
      token_reviewer_jwt_set: true,
      disable_local_ca_jwt: true,
    });
    expect(before[1]).toMatchObject({ bound_service_account_namespaces: ['payments'], token_ttl: 1800 });
    expect(before[2]).toMatchObject({ secret_id_ttl: 86_400, token_max_ttl: 86_400 });
    expect(setUp({ AUTH: 'approle kubernetes' })).toMatchObject(succeeds);
    expect(await state()).toEqual(before);
    expect(setUp(everything)).toMatchObject(succeeds);
    expect(await state()).toEqual(before);
    const [config, kubernetes, appRole, ...others] = before;
    expect(setUp({ AUTH: 'approle kubernetes', TOKEN_TTL: '20m' })).toMatchObject(succeeds);
    const changed = [kubernetes, appRole].map((role) => ({ ...Object(role), token_ttl: 1200 }));
    expect(await state()).toEqual([config, ...changed, ...others]);
  });

  it('permits proxy and platform team in their environment what they need, with Transit where it is named, and nothing else', async () => {
    const environments = ['production', 'sandbox'];
    const transit = (name: string) => ({ ENVIRONMENT: name, TRANSIT_MOUNT: `transit-${name}`, AUTH: '' });
    for (const own of environments) {
      expect(setUp(transit(own))).toMatchObject({ ...succeeds, stderr: '' });
      await admin.request('POST', `transit-${own}/keys/acme`, { type: 'rsa-2048' });
    }
    for (const own of environments) {
      for (const name of policyNames) {
        const token = await admin.token({ policies: [`countersign-${own}-${name}`], ttl: '10m' });
        const permitted = await permittedTo(token, admin, [...environments, `${own}-2`]);
        expect(permitted).toEqual(permittedBy(name, own));
        const inTransit = await permittedTo(token, admin, environments, transitActions);
        expect(inTransit).toEqual(permittedBy(name, own, transitActions));
      }
    }
    // Without it a later run would take the right to sign away.
    const without = setUp({ AUTH: '' });
    expect(without).toMatchObject(fails);
    expect(without.stderr).toContain('set TRANSIT_MOUNT');
    for (const name of environments) {
      await admin.request('DELETE', `sys/mounts/transit-${name}`);
      for (const one of policyNames)
        await admin.request('DELETE', `sys/policies/acl/countersign-${name}-${one}`);
    }
  });

  describe('every command of deploy/vault/README.md that sets up Vault or stops a login', () => {
    const page = readFileSync(join(root, 'deploy/vault/README.md'), 'utf8');
    const section = (title: string) =>
      page.split(/^##+ /m).find((text) => text.startsWith(`${title}\n`)) ?? '';
    const blocks = (title: string) =>
      [...section(title).matchAll(/^ *```sh\n([^]*?)^ *```$/gm)].map(([, text = '']) => text);
    const run = (command: string, token: string) => shell(['-ec', command], token);
    const keys = new KeysTestEnvironment();

    beforeAll(async () => {
      await keys.open(admin);
      symlinkSync(join(root, 'deploy'), join(folder.path, 'deploy'));
      const program = `#!/bin/sh\nexec "${process.execPath}" "${root}/src/main.ts" "$@"\n`;
      chmodSync(folder.file('bin/countersign', program), 0o755);
      const [, shown = ''] = /^```yaml\n([^]*?)^```$/m.exec(section('AppRole outside Kubernetes')) ?? [];
      const config = shown
        .replace(/^ *caFile: .*\n/m, '')
        .replace(/(?<=address: ).*/, admin.address)
        .replaceAll('/etc/countersign', folder.path);
      const environments = { production: { baseUrl: keys.gateway.url, product: 'gw' } };
      folder.file('config.yaml', `${config}environments: ${JSON.stringify(environments)}\n`);
    });
    afterAll(() => keys.close());

    it.each(['Setting up Vault', 'AppRole outside Kubernetes'])('%s', async (title) => {
      expect(blocks(title).length).toBeGreaterThan(1);
      setUp(everything);
      for (const block of blocks(title)) {
        expect({ block, ...run(block, rootToken) }).toMatchObject({ status: 0, stderr: '' });
      }
    });

    it('AppRole outside Kubernetes: a login with what the commands wrote', async () => {
      run(blocks('AppRole outside Kubernetes').join(''), rootToken);
      const file = (name: string) => readFileSync(join(folder.path, name), 'utf8').trim();
      const [role_id, secret_id] = ['role-id', 'secret-id'].map((name) => file(name));
      const { auth } = await admin.request('POST', 'auth/approle/login', { role_id, secret_id });
      expect(auth?.['token_policies']).toEqual(['countersign-production-proxy', 'default']);
    });

    it('Stopping a login, by the platform team', async () => {
      setUp({ AUTH: '' });
      const token = await admin.token({ policies: ['countersign-production-platform'], ttl: '10m' });
      const read = () => admin.send('GET', 'secret/data/gateway/production/acme');
      const [stop = '', stopAfterRemoval = ''] = blocks('Stopping a login');
      for (let version = 1; version <= 6; version += 1)
        await admin.put('gateway/production/acme', { a: 'b' });
      // Of the approver, who has seen version 7. Without the capability the program drops -cas and writes.
      const [patch = ''] = /^vault kv patch .*$/m.exec(section('Two people for a production key')) ?? [];
      expect(run(patch, token)).toMatchObject({ status: 2, stderr: expect.stringMatching('check-and-set') });
      expect(run(stop, token)).toMatchObject({ status: 0, stderr: '' });
      expect(await read()).toMatchObject({ status: 404, text: expect.stringContaining('"version":6') });
      const { data } = await admin.request('GET', 'secret/metadata/gateway/production/acme');
      expect(JSON.stringify(data)).not.toContain('"deletion_time":""');
      await admin.request('DELETE', 'secret/metadata/gateway/production/acme');
      expect(await read()).toMatchObject({ status: 404, text: expect.not.stringContaining('"version"') });
      expect(run(stopAfterRemoval, token)).toMatchObject({ status: 0, stderr: '' });
      expect(await read()).toMatchObject({ status: 404, text: expect.stringContaining('"version":1') });
    });
  });

  it('writes policies that permit emergency step 5 to the documented role, and not to the platform team', async () => {
    setUp({});
    const page = readFileSync(join(root, 'deploy/vault/README.md'), 'utf8').replaceAll(/\s+/g, ' ');
    const step = page.slice(page.indexOf('5. Find out how it leaked'));
    const [revoke = '', destroy = ''] = [
      ...step.matchAll(/`(vault [^`]* ACCESSOR|vault [^`]*=ACCESSOR)`/g),
    ].map(([, command]) => command);
    const paths = [...step.matchAll(/`(auth\/[^`]*)`/g)].map(([, path]) => path);
    const path = Object.fromEntries(paths.map((name) => [name, { capabilities: ['update'] }]));
    await admin.request('POST', 'sys/policies/acl/emergency', { policy: JSON.stringify({ path }) });
    const platform = await admin.token({ policies: ['countersign-production-platform'], ttl: '10m' });
    const emergency = await admin.token({ policies: ['emergency'], ttl: '10m' });
    const role = 'auth/approle/role/countersign-production';
    const { auth } = await admin.request('POST', 'auth/token/create', {
      policies: ['countersign-production-proxy'],
    });
    const { data } = await admin.request('POST', `${role}/secret-id`, {});
    const run = (command: string, accessor: unknown, token: string) =>
      shell(['-c', command.replace('ACCESSOR', String(accessor))], token).status;
    expect(run(revoke, auth?.['accessor'], platform)).toBe(2);
    expect(run(destroy, data?.['secret_id_accessor'], platform)).toBe(2);
    expect(run(revoke, auth?.['accessor'], emergency)).toBe(0);
    expect(run(destroy, data?.['secret_id_accessor'], emergency)).toBe(0);
    const token = auth?.['client_token'];
    await expect(admin.request('POST', 'auth/token/lookup', { token })).rejects.toThrow('403');
    const secret_id = data?.['secret_id'];
    expect((await admin.request('POST', `${role}/secret-id/lookup`, { secret_id })).data).toBeUndefined();
  });
});
