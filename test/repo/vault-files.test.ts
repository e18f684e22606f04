import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ringIn } from '../../src/keys/key-source.ts';
import { connectVault } from '../../src/keys/vault/source.ts';
import { Secret } from '../../src/secret.ts';
import { Folder } from '../support/folder.ts';
import { root } from '../support/sources.ts';
import { problemOf, VaultTestEnvironment, vaultSource } from '../support/stub-vault/harness.ts';
import {
  enableTransit,
  type PolicyName,
  permittedBy,
  permittedTo,
  policyJson,
  policyNames,
  policyText,
  rulesOf,
  transitActions,
} from '../support/vault-policies.ts';

const acme = { environment: 'production', login: 'acme' };

/** Each path with each capability, as `capability path`. */
function granted(name: PolicyName): string[] {
  const rules = Object.entries(rulesOf(policyText(name)));
  return rules.flatMap(([path, { capabilities }]) => capabilities.map((one) => `${one} ${path}`)).sort();
}

describe('the policies for Vault', () => {
  const bench = new VaultTestEnvironment();
  const tokens = new Map<string, Secret>();

  beforeAll(async () => {
    await bench.open();
    for (const name of policyNames) {
      await bench.admin.policyText(name, policyJson(name));
      tokens.set(name, new Secret(await bench.admin.token({ policies: [name], ttl: '1h' })));
    }
  });
  afterAll(() => bench.close());
  beforeEach(async () => {
    await bench.admin.request('DELETE', 'secret/metadata/gateway/production/acme');
    await bench.admin.put('gateway/production/acme', { control_key: 'first' });
    await bench.admin.put('gateway/production/acme', { control_key: 'second' });
    bench.vault.seen.length = 0;
  });

  function as(name: PolicyName) {
    return bench.config({ auth: { method: 'token', token: tokens.get(name) ?? new Secret('none') } });
  }

  /** The capabilities that requests for secrets used, as `capability path` with `*` for the login. */
  function usedCapabilities(): string[] {
    const used = bench.vault.seen
      .filter(({ target }) => target.startsWith('secret/'))
      .map(({ method, target }) => {
        const [path = '', query = ''] = target.split('?');
        const reads = query.includes('list=') ? 'list' : 'read';
        return `${method === 'GET' ? reads : 'update'} ${path.replace(/\/gateway\/production(\/.*)?$/, '/gateway/production/*')}`;
      });
    return [...new Set(used)].sort();
  }

  it('give the proxy exactly the capabilities that it uses', async () => {
    const source = bench.closeAtEnd(vaultSource(as('proxy'), bench.options));
    expect(ringIn(await source.read(acme))?.map(({ version }) => version)).toEqual([2, 1]);
    expect(usedCapabilities()).toEqual(granted('proxy'));
  });

  it('do not let the proxy write, list, or read another path', async () => {
    const store = bench.closeAtEnd(connectVault(as('proxy'), bench.options));
    expect(await problemOf(store.kv.extend(acme, { control_key: 'x' }, 2))).toBe('denied');
    expect(await problemOf(store.kv.logins('production'))).toBe('denied');
    expect(await problemOf(store.kv.history(acme))).toBe('denied');
    const elsewhere = { ...as('proxy'), path: 'other/{environment}/{login}' };
    expect(await problemOf(bench.closeAtEnd(vaultSource(elsewhere, bench.options)).read(acme))).toBe(
      'denied',
    );
  });

  it('give the platform team the capabilities that the keys commands use, and those to remove a leaked key', async () => {
    const store = bench.closeAtEnd(connectVault(as('platform'), bench.options));
    expect((await store.kv.history(acme))?.current).toBe(2);
    expect((await store.readVersion(acme, 1))?.version).toBe(1);
    expect(await store.kv.logins('production')).toEqual(['acme']);
    expect(await store.kv.extend(acme, { control_key: new Secret('third') }, 2)).toBe(3);
    expect(await store.kv.write(acme, { control_key: new Secret('fourth') }, 3)).toBe(4);
    const forEmergencies = ['delete', 'destroy', 'undelete'].map(
      (one) => `update secret/${one}/gateway/production/*`,
    );
    // To Vault the first version of a secret is a creation, and `vault kv delete` without versions a deletion.
    const data = ['create', 'delete'].map((one) => `${one} secret/data/gateway/production/*`);
    const used = [...usedCapabilities(), ...data, ...forEmergencies];
    expect(granted('platform')).toEqual(used.sort());
  });

  it('do not let the platform team read or write another path', async () => {
    const elsewhere = { ...as('platform'), path: 'other/{environment}/{login}' };
    const store = bench.closeAtEnd(connectVault(elsewhere, bench.options));
    expect(await problemOf(store.kv.history(acme))).toBe('denied');
    expect(await problemOf(store.kv.extend(acme, { control_key: 'x' }, 0))).toBe('denied');
  });

  it.each(policyNames)('permit the %s in its environment what it needs, and nothing else', async (name) => {
    for (const own of ['production', 'sandbox']) {
      await bench.admin.policyText(`${own}-${name}`, policyJson(name, own));
      const token = await bench.admin.token({ policies: [`${own}-${name}`], ttl: '1h' });
      const permitted = await permittedTo(token, bench.admin, ['production', 'sandbox', `${own}-2`]);
      expect(permitted).toEqual(permittedBy(name, own));
    }
  });

  it('permit signing in Vault, and no export, in their environment only', async () => {
    const environments = ['production', 'sandbox'];
    await enableTransit(bench.admin, environments);
    for (const own of environments) {
      for (const name of policyNames) {
        await bench.admin.policyText(`${own}-${name}`, policyJson(name, own, true));
        const token = await bench.admin.token({ policies: [`${own}-${name}`], ttl: '1h' });
        const permitted = await permittedTo(token, bench.admin, environments, transitActions);
        expect(permitted).toEqual(permittedBy(name, own, transitActions));
      }
    }
  });
});

describe('deploy/vault/setup.sh', () => {
  const script = join(root, 'deploy/vault/setup.sh');
  const folder = new Folder();
  const state = join(folder.path, 'state');

  /** Knows its mounts, rejects a duplicate one, and records each command. */
  const vault = `#!/bin/sh
echo "vault $*" >> "$STATE/calls"
case "$1 $2" in
  "secrets list") cat "$STATE/secrets" 2>/dev/null; exit 0 ;;
  "auth list") cat "$STATE/auth" 2>/dev/null; exit 0 ;;
  "secrets enable" | "auth enable")
    name=\${3#-path=}
    if grep -q "^$name/ " "$STATE/$1" 2>/dev/null; then echo "path is already in use" >&2; exit 2; fi
    echo "$name/    kv    kv_1    map[version:2]" >> "$STATE/$1" ;;
  "policy read") cat "$STATE/$3.hcl" 2>/dev/null || { echo "No policy named: $3" >&2; exit 2; } ;;
  "policy write") cat > "$STATE/$3.hcl" ;;
  "read -field=kubernetes_ca_cert") sed -n 's/^kubernetes_ca_cert  *//p' "$STATE/config" ;;
  "read auth/"*"/role/"*)
    [ -e "$STATE/$(echo "$2" | tr / -)" ] || { echo "No value found at $2" >&2; exit 2; }
    cat "$STATE/$(echo "$2" | tr / -)" ;;
  "write auth/"*"/role/"*)
    file=$STATE/$(echo "$2" | tr / -); shift 2
    printf '%s\n' "$@" | sed 's/=/  /; s/^token_policies  /&[/; /^token_policies/s/$/]/' >> "$file" ;;
  "read -field=role_id") [ ! -e "$STATE/fail-role-id" ] || exit 2; echo the-role-id ;;
  "read auth/kubernetes/config")
    [ ! -e "$STATE/fail-config-read" ] || { echo "permission denied" >&2; exit 2; }
    [ -e "$STATE/config" ] || { echo "No value found at auth/kubernetes/config" >&2; exit 2; }
    cat "$STATE/config" ;;
  "write auth/kubernetes/config")
    [ ! -e "$STATE/fail-config-write" ] || { echo "denied" >&2; exit 2; }
    shift 2; printf '%s\n' "$@" | sed 's/=/  /' > "$STATE/config" ;;
  "write "*) ;;
  *) echo "unexpected: $*" >&2; exit 9 ;;
esac
`;

  beforeAll(() => {
    mkdirSync(join(folder.path, 'bin'));
    chmodSync(folder.file('bin/vault', vault), 0o755);
  });
  afterAll(() => folder.remove());

  const written = (policy: string) => readFileSync(join(state, `${policy}.hcl`), 'utf8');

  function setUp(environment: Record<string, string>) {
    const env = {
      PATH: `${folder.path}/bin:/usr/bin:/bin`,
      STATE: state,
      ENVIRONMENT: 'production',
      ...environment,
    };
    const { status, stdout, stderr } = spawnSync('sh', [script], { env, encoding: 'utf8' });
    const calls = readFileSync(join(state, 'calls'), 'utf8').trim().split('\n');
    folder.file('state/calls', '');
    return { status, stdout, stderr, changes: calls.filter((call) => !/ list| read /.test(call)) };
  }

  beforeEach(() => {
    spawnSync('rm', ['-rf', state]);
    mkdirSync(state);
    folder.file('state/calls', '');
  });

  it('is a script that every POSIX shell can parse', () => {
    expect(spawnSync('sh', ['-n', script], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
  });

  it('sets up the mount, both policies and a role for AppRole, and prints the next steps', () => {
    const { status, stdout, stderr, changes } = setUp({});
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(changes).toEqual([
      'vault secrets enable -path=secret -version=2 kv',
      'vault policy write countersign-production-proxy -',
      'vault policy write countersign-production-platform -',
      'vault auth enable -path=approle approle',
      'vault write auth/approle/role/countersign-production token_policies=countersign-production-proxy token_ttl=1h token_max_ttl=24h secret_id_ttl=0',
    ]);
    for (const name of policyNames) expect(written(`countersign-production-${name}`)).toBe(policyText(name));
    expect(stdout).toContain('the role ID is the-role-id');
    expect(stdout).toContain(
      'vault write -field=secret_id -force auth/approle/role/countersign-production/secret-id',
    );
  });

  it('can be run again, and then creates no mount', () => {
    setUp({ AUTH: 'approle kubernetes' });
    const { status, changes } = setUp({ AUTH: 'approle kubernetes' });
    expect(status).toBe(0);
    expect(changes.filter((call) => call.includes('enable'))).toEqual([]);
    expect(changes.filter((call) => call.includes('kubernetes/config'))).toEqual([]);
    expect(changes.filter((call) => call.includes('/role/countersign-production'))).toEqual([]);
  });

  it('changes only the given settings of a role', () => {
    setUp({ AUTH: 'approle kubernetes', KUBERNETES_NAMESPACE: 'payments', SECRET_ID_TTL: '24h' });
    const { status, changes } = setUp({ AUTH: 'approle kubernetes', TOKEN_TTL: '20m' });
    expect(status).toBe(0);
    expect(changes.filter((call) => call.includes('/role/countersign-production'))).toEqual([
      'vault write auth/approle/role/countersign-production token_ttl=20m',
      'vault write auth/kubernetes/role/countersign-production token_ttl=20m',
    ]);
  });

  it('rejects an existing role without the policy of the proxy', () => {
    folder.file(
      'state/auth-approle-role-countersign-production',
      'token_policies    [countersign-production-proxy-2 other]\n',
    );
    expect(setUp({})).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('policy countersign-production-proxy:'),
    });
    folder.file(
      'state/auth-approle-role-countersign-production',
      'token_policies    [other countersign-production-proxy]\n',
    );
    expect(setUp({})).toMatchObject({ status: 0 });
  });

  it('runs with the program of OpenBao', () => {
    mkdirSync(join(folder.path, 'bao'), { recursive: true });
    chmodSync(folder.file('bao/bao', vault), 0o755);
    expect(setUp({ PATH: `${folder.path}/bao:/usr/bin:/bin` })).toMatchObject({ status: 0 });
  });

  it('binds the Kubernetes role to one service account and its audience', () => {
    const { status, changes } = setUp({ AUTH: 'kubernetes', KUBERNETES_NAMESPACE: 'payments' });
    expect(status).toBe(0);
    expect(changes.slice(3)).toEqual([
      'vault auth enable -path=kubernetes kubernetes',
      'vault write auth/kubernetes/config kubernetes_host=https://kubernetes.default.svc',
      'vault write auth/kubernetes/role/countersign-production token_policies=countersign-production-proxy bound_service_account_names=countersign-production bound_service_account_namespaces=payments audience=vault token_ttl=1h token_max_ttl=24h',
    ]);
  });

  describe('with an existing Kubernetes configuration', () => {
    const existing =
      'kubernetes_host    https://k8s\nkubernetes_ca_cert    PEM\ntoken_reviewer_jwt_set    true\n';
    const again = (more: Record<string, string> = {}, config = existing) => {
      folder.file('state/config', config);
      const { changes, ...ran } = setUp({ AUTH: 'kubernetes', ...more });
      return { ...ran, written: changes.filter((call) => call.includes('kubernetes/config')) };
    };
    const replacing = { KUBERNETES_HOST: 'https://other', KUBERNETES_REPLACE_CONFIG: 'yes' };

    it('does not change it', () => {
      expect(again()).toMatchObject({ status: 0, written: [] });
      expect(again({ KUBERNETES_HOST: 'https://k8s' })).toMatchObject({ status: 0, written: [] });
    });

    it('fails if it differs from the given one', () => {
      const other = folder.file('other.pem', 'ANOTHER PEM\n');
      const present = folder.file('present.pem', 'PEM\n');
      expect(again({ KUBERNETES_CA_FILE: present })).toMatchObject({ status: 0, written: [] });
      expect(again({ KUBERNETES_CA_FILE: other })).toMatchObject({ status: 1, written: [] });
      expect(again({ KUBERNETES_CA_FILE: 'no-such-file' })).toMatchObject({ status: 1, written: [] });
      expect(again({ KUBERNETES_DISABLE_LOCAL_CA_JWT: 'true' })).toMatchObject({ status: 1, written: [] });
    });

    it.each(['issuer    https://theirs', 'pem_keys    [PEM]', 'disable_iss_validation    false'])(
      'does not replace it if it has a field that the script cannot set: %s',
      (line) => {
        const all = { ...replacing, KUBERNETES_CA_FILE: 'ca.pem', KUBERNETES_REVIEWER_JWT_FILE: 'jwt' };
        expect(again(all, `${existing}${line}\n`)).toMatchObject({ status: 1, written: [] });
      },
    );

    it('does not remove CA and reviewer token for another host', () => {
      expect(again({ KUBERNETES_HOST: 'https://other' })).toMatchObject({ status: 1, written: [] });
      expect(again(replacing)).toMatchObject({ status: 1, written: [] });
      expect(again({ ...replacing, KUBERNETES_CA_FILE: 'ca.pem' })).toMatchObject({ status: 1, written: [] });
    });

    it('replaces it on request, if every field is given', () => {
      const all = { ...replacing, KUBERNETES_CA_FILE: 'ca.pem', KUBERNETES_REVIEWER_JWT_FILE: 'jwt' };
      expect(again(all)).toMatchObject({
        status: 0,
        written: [
          'vault write auth/kubernetes/config kubernetes_host=https://other kubernetes_ca_cert=@ca.pem token_reviewer_jwt=@jwt',
        ],
      });
    });
  });

  it('fails if a step failed, and continues from there when it is run again', () => {
    folder.file('state/fail-config-write', '');
    const failed = setUp({ AUTH: 'kubernetes' });
    expect(failed.status).not.toBe(0);
    expect(failed.stdout).not.toContain('Done');
    spawnSync('rm', [join(state, 'fail-config-write')]);
    const { status, stdout, changes } = setUp({ AUTH: 'kubernetes' });
    expect(status).toBe(0);
    expect(stdout).toContain('Done');
    expect(changes.filter((call) => call.includes('kubernetes/config'))).toHaveLength(1);
    for (const failing of ['fail-role-id', 'fail-config-read']) {
      folder.file(`state/${failing}`, '');
      const { status, stdout } = setUp({ AUTH: 'kubernetes approle' });
      expect({ failed: status !== 0, done: stdout.includes('Done') }).toEqual({ failed: true, done: false });
      spawnSync('rm', [join(state, failing)]);
    }
  });

  it('puts mount and prefix into the policies', () => {
    expect(setUp({ KV_MOUNT: 'team/kv', KV_PREFIX: 'pay/gw' }).status).toBe(0);
    expect(Object.keys(rulesOf(written('countersign-production-platform')))).toEqual([
      'team/kv/data/pay/gw/production/*',
      'team/kv/metadata/pay/gw/production/*',
      'team/kv/delete/pay/gw/production/*',
      'team/kv/undelete/pay/gw/production/*',
      'team/kv/destroy/pay/gw/production/*',
    ]);
  });

  it('keeps environments and deployments apart: each role has its own policies', () => {
    expect(setUp({}).status).toBe(0);
    const { status, changes } = setUp({ ENVIRONMENT: 'sandbox' });
    expect(status).toBe(0);
    expect(changes.filter((call) => / policy | write /.test(call))).toEqual([
      'vault policy write countersign-sandbox-proxy -',
      'vault policy write countersign-sandbox-platform -',
      expect.stringMatching(
        /^vault write auth\/approle\/role\/countersign-sandbox token_policies=countersign-sandbox-proxy /,
      ),
    ]);
    for (const name of policyNames) {
      expect(written(`countersign-production-${name}`)).toBe(policyText(name));
      expect(written(`countersign-sandbox-${name}`)).toBe(policyText(name, 'sandbox'));
    }
    expect(setUp({ ROLE: 'x', KV_PREFIX: 'other' }).status).toBe(0);
    expect(written('countersign-production-proxy')).toBe(policyText('proxy'));
    expect(written('x-proxy')).toContain('"secret/data/other/production/*"');
  });

  it.each([
    ['prefix', { KV_PREFIX: 'other' }],
    ['mount', { KV_MOUNT: 'other' }],
    ['environment', { ENVIRONMENT: 'sandbox', ROLE: 'countersign-production' }],
  ])('does not overwrite the policy of a deployment with another %s', (_name, other) => {
    setUp({});
    const { status, stderr } = setUp(other);
    expect(status).toBe(1);
    expect(stderr).toContain(
      'the policy countersign-production-proxy permits secret/data/gateway/production/*',
    );
    for (const name of policyNames) expect(written(`countersign-production-${name}`)).toBe(policyText(name));
  });

  it('writes the policies only, if it is given no login method', () => {
    const { status, changes } = setUp({ AUTH: '' });
    expect(status).toBe(0);
    expect(changes.filter((call) => !/ policy | secrets /.test(call))).toEqual([]);
  });

  it.each(['', 'Production', 'a/b', '*'])('rejects %j as an environment', (ENVIRONMENT) => {
    const { status, stderr, changes } = setUp({ ENVIRONMENT });
    expect({ status, changes }).toEqual({ status: 1, changes: [''] });
    expect(stderr).toContain('ENVIRONMENT must be the name of an environment');
  });

  it('rejects a mount of version 1 and an unknown login method', () => {
    folder.file('state/secrets', 'secret/    kv    kv_1    map[version:1]\n');
    expect(setUp({})).toMatchObject({
      status: 1,
      stderr:
        'setup.sh: secret is a KV mount of version 1; to make it version 2: vault kv enable-versioning secret\n',
    });
    folder.file('state/secrets', 'secret/    pki    pki_1    map[]\n');
    expect(setUp({})).toMatchObject({ status: 1, stderr: 'setup.sh: secret is not a KV mount\n' });
    folder.file('state/secrets', '');
    expect(setUp({ AUTH: 'ldap' })).toMatchObject({ status: 1 });
  });
});
