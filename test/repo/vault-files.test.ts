import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ringIn } from '../../src/keys/key-source.ts';
import { connectVault } from '../../src/keys/vault/source.ts';
import { Secret } from '../../src/secret.ts';
import { Folder } from '../support/folder.ts';
import { root } from '../support/sources.ts';
import { VaultTestEnvironment, vaultSource } from '../support/stub-vault/harness.ts';
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
    await enableTransit(bench.admin, ['production', 'sandbox']);
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
    // The first version of a secret is a creation; `vault kv delete` without versions, and `vault kv patch`.
    const data = ['create', 'delete', 'patch'].map((one) => `${one} secret/data/gateway/production/*`);
    const used = [...usedCapabilities(), ...data, ...forEmergencies];
    expect(granted('platform')).toEqual(used.sort());
  });

  it.each(policyNames)(
    'permit the %s in its environment what it needs, signing in Vault too, and nothing else',
    async (name) => {
      const environments = ['production', 'sandbox'];
      for (const own of environments) {
        await bench.admin.policyText(`${own}-${name}`, policyJson(name, own, true));
        const token = await bench.admin.token({ policies: [`${own}-${name}`], ttl: '1h' });
        const permitted = await permittedTo(token, bench.admin, [...environments, `${own}-2`]);
        expect(permitted).toEqual(permittedBy(name, own));
        const inTransit = await permittedTo(token, bench.admin, environments, transitActions);
        expect(inTransit).toEqual(permittedBy(name, own, transitActions));
        await bench.admin.policyText(`${own}-${name}`, policyJson(name, own));
        expect(await permittedTo(token, bench.admin, [own], transitActions)).toEqual([]);
      }
    },
  );
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
    rmSync(state, { recursive: true, force: true });
    mkdirSync(state);
    folder.file('state/calls', '');
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

  it('can be run again, and then writes the policies only', () => {
    setUp({ AUTH: 'approle kubernetes' });
    const { status, changes } = setUp({ AUTH: 'approle kubernetes' });
    expect(status).toBe(0);
    const others = changes.filter((call) => !call.startsWith('vault policy write'));
    expect(others).toEqual([]);
  });

  it('rejects an existing role without the policy of the proxy', () => {
    const role = 'state/auth-approle-role-countersign-production';
    folder.file(role, 'token_policies    [countersign-production-proxy-2 other]\n');
    const stderr = expect.stringContaining('policy countersign-production-proxy:');
    expect(setUp({})).toMatchObject({ status: 1, stderr });
    folder.file(role, 'token_policies    [other countersign-production-proxy]\n');
    const warning = 'WARNING: auth/approle/role/countersign-production has other policies too: other. ';
    expect(setUp({})).toMatchObject({ status: 0, stderr: expect.stringContaining(warning) });
  });

  it('runs with the program of OpenBao', () => {
    mkdirSync(join(folder.path, 'bao'), { recursive: true });
    chmodSync(folder.file('bao/bao', vault), 0o755);
    expect(setUp({ PATH: `${folder.path}/bao:/usr/bin:/bin` })).toMatchObject({ status: 0 });
  });

  it('binds the Kubernetes role to the service account of the chart and its audience', () => {
    const { status, changes } = setUp({ AUTH: 'kubernetes', KUBERNETES_NAMESPACE: 'payments' });
    expect(status).toBe(0);
    expect(changes.slice(3)).toEqual([
      'vault auth enable -path=kubernetes kubernetes',
      'vault write auth/kubernetes/config kubernetes_host=https://kubernetes.default.svc',
      'vault write auth/kubernetes/role/countersign-production token_policies=countersign-production-proxy bound_service_account_names=countersign bound_service_account_namespaces=payments audience=vault token_ttl=1h token_max_ttl=24h',
    ]);
  });

  it('replaces a Kubernetes configuration only on request, and only if every field is given', () => {
    const existing =
      'kubernetes_host    https://k8s\nkubernetes_ca_cert    PEM\ntoken_reviewer_jwt_set    true\n';
    const again = (more: Record<string, string>, config = existing) => {
      folder.file('state/config', config);
      const { changes, status } = setUp({ AUTH: 'kubernetes', ...more });
      return { status, written: changes.filter((call) => call.includes('kubernetes/config')) };
    };
    const other = { KUBERNETES_HOST: 'https://other' };
    const replacing = { ...other, KUBERNETES_REPLACE_CONFIG: 'yes', KUBERNETES_CA_FILE: 'ca.pem' };
    const all = { ...replacing, KUBERNETES_REVIEWER_JWT_FILE: 'jwt' };
    for (const same of [{}, { KUBERNETES_HOST: 'https://k8s' }])
      expect(again(same)).toEqual({ status: 0, written: [] });
    const different = { KUBERNETES_CA_FILE: folder.file('other.pem', 'ANOTHER PEM\n') };
    for (const rejected of [other, replacing, different])
      expect(again(rejected)).toEqual({ status: 1, written: [] });
    for (const line of ['issuer    https://theirs', 'pem_keys    [PEM]', 'disable_iss_validation    false'])
      expect(again(all, `${existing}${line}\n`)).toEqual({ status: 1, written: [] });
    expect(again(all)).toEqual({
      status: 0,
      written: [
        'vault write auth/kubernetes/config kubernetes_host=https://other kubernetes_ca_cert=@ca.pem token_reviewer_jwt=@jwt',
      ],
    });
  });

  it.each([
    ['kubernetes', 'fail-config-write'],
    ['kubernetes approle', 'fail-config-read'],
    ['kubernetes approle', 'fail-role-id'],
  ])(
    'with AUTH=%s ends at a failed step (%s), and continues from there when it runs again',
    (AUTH, failing) => {
      folder.file(`state/${failing}`, '');
      const failed = setUp({ AUTH });
      expect([failed.status === 0, failed.stdout.includes('Done')]).toEqual([false, false]);
      rmSync(join(state, failing));
      const { status, stdout } = setUp({ AUTH });
      expect([status, stdout.includes('Done')]).toEqual([0, true]);
    },
  );

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
    const sandbox = { ENVIRONMENT: 'sandbox' };
    expect(setUp({}).status).toBe(0);
    const { status, changes } = setUp(sandbox);
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
    const overwritten = 'the policy countersign-production-proxy permits secret/data/gateway/production/*';
    for (const other of [
      { KV_PREFIX: 'other' },
      { KV_MOUNT: 'other' },
      { ...sandbox, ROLE: 'countersign-production' },
    ])
      expect(setUp(other)).toMatchObject({ status: 1, stderr: expect.stringContaining(overwritten) });
    expect(setUp({ ROLE: 'x', KV_PREFIX: 'other' }).status).toBe(0);
    expect(written('countersign-production-proxy')).toBe(policyText('proxy'));
    expect(written('x-proxy')).toContain('"secret/data/other/production/*"');
  });

  it.each([
    ['ENVIRONMENT', ''],
    ['ENVIRONMENT', 'Production'],
    ['KV_MOUNT', 'a#b'],
    ['KV_PREFIX', 'a#b'],
    ['ROLE', 'a#b'],
  ])('rejects %s=%j', (option, value) => {
    const { status, stderr, changes } = setUp({ [option]: value });
    expect({ status, changes }).toEqual({ status: 1, changes: [''] });
    expect(stderr).toMatch(new RegExp(`${option}.* not '${value}'`));
  });

  it('rejects a mount of version 1 and an unknown login method', () => {
    folder.file('state/secrets', 'secret/    kv    kv_1    map[version:1]\n');
    const stderr = expect.stringContaining(
      'secret is a KV mount of version 1; to make it version 2: vault kv ',
    );
    expect(setUp({})).toMatchObject({ status: 1, stderr });
    folder.file('state/secrets', 'secret/    pki    pki_1    map[]\n');
    expect(setUp({})).toMatchObject({ status: 1, stderr: 'setup.sh: secret is not a KV mount\n' });
    folder.file('state/secrets', '');
    expect(setUp({ AUTH: 'approle ldap' })).toMatchObject({ status: 1, changes: [''] });
  });
});
