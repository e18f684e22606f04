import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { VaultConfig } from '../../src/config/schema.ts';
import { connectVault } from '../../src/keys/vault/source.ts';
import { Secret } from '../../src/secret.ts';
import { marksIn } from '../support/secret-canaries.ts';
import type { Fault } from '../support/stub-vault/faults.ts';
import {
  acme,
  approleMount,
  roleName,
  VaultTestEnvironment,
  vaultSource,
} from '../support/stub-vault/harness.ts';

const marks = {
  token: 'hvs.MARK-token-5f1c~/+=',
  secretId: 'MARK-secret-id-9d2e~/+=',
  jwt: 'eyMARK-jwt-c3d4~/+=',
  controlKey: 'MARK-control-key-e5f6~/+=',
  pem: '-----BEGIN PRIVATE KEY-----\nMARK-private-key-a1b2~/+=\n-----END PRIVATE KEY-----',
  passphrase: 'MARK-passphrase-0a9b~/+=',
};
const secret = { control_key: marks.controlKey, private_key: marks.pem, passphrase: marks.passphrase };

/** What Vault itself might respond with. */
const echo = Object.values(marks);
const faults: readonly (readonly [string, Fault])[] = [
  ...[400, 403, 404, 429, 503, 418].map(
    (status) => [`${status}`, { kind: 'status', status, errors: echo }] as const,
  ),
  ['307', { kind: 'status', status: 307, headers: { Location: `/${encodeURIComponent(marks.token)}` } }],
  ['a reset', { kind: 'reset' }],
  ['a black hole', { kind: 'black-hole' }],
  ['cut JSON', { kind: 'cut-json' }],
  [
    'a secret of the wrong shape',
    { kind: 'json', body: { data: { data: secret, metadata: { version: 'x' } } } },
  ],
  [
    'a login of the wrong shape',
    { kind: 'json', body: { auth: { client_token: marks.token, lease_duration: 'x' } } },
  ],
  ['secrets in the wrong places', { kind: 'json', body: { data: { data: echo, metadata: secret } } }],
];

describe('secrets', () => {
  let setup: VaultTestEnvironment;
  let auths: readonly VaultConfig['auth'][];

  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open();
    await setup.admin.put('gateway/sandbox/acme', secret);
    setup.vault.world().tokens.create(setup.clock.now(), { id: marks.token, policies: [roleName], ttl: 600 });
    const file = (name: keyof typeof marks) => setup.folder.file(name, marks[name]);
    const appRole = { method: 'approle', mount: approleMount, roleId: setup.roleId } as const;
    auths = [
      { method: 'token', token: new Secret(marks.token) },
      { method: 'token', tokenFile: file('token') },
      { ...appRole, secretIdFile: file('secretId') },
      { method: 'kubernetes', mount: 'kubernetes', role: 'signer', jwtFile: file('jwt') },
    ];
  });
  afterEach(() => setup.close());

  /** All output of reading and writing: results, errors with their fields, events. */
  async function seenOf(auth: VaultConfig['auth']): Promise<string> {
    const config = setup.config({ auth, timeout: 100 });
    const source = setup.closeAtEnd(vaultSource(config, setup.options));
    const store = setup.closeAtEnd(connectVault(config, setup.options));
    const caught = (work: Promise<unknown>) => work.catch((error: unknown) => error);
    const results = [
      await caught(source.read(acme)),
      await caught(source.read(acme)),
      await caught(store.readVersion(acme, 1)),
      await caught(store.kv.extend(acme, { control_key: new Secret(marks.controlKey) }, 1)),
      setup.observed,
      source,
      store,
      config,
    ];
    return results.map(textsOf).join('\n');
  }

  function textsOf(value: unknown): string {
    const own =
      value instanceof Error ? [value.message, value.stack, inspect(value.cause, { depth: 20 })] : [];
    const options = { depth: 20, showHidden: true, getters: true } as const;
    return [String(value), JSON.stringify(value), inspect(value, options), ...own].join('\n');
  }

  it.each(faults)('are in no output after %s', async (_name, fault) => {
    setup.vault.fail(fault);
    const seen = await Promise.all(auths.map(seenOf));
    expect(marksIn(seen.join('\n'), marks)).toEqual([]);
    expect(setup.observed.problems.length).toBeGreaterThan(0);
  });

  it('are in no output if the login works and the read of the secret fails', async () => {
    const [token] = auths;
    for (const [, fault] of faults) {
      setup.vault.fail(fault, /^secret/);
      expect(marksIn(await seenOf(token ?? auths[0]!), marks)).toEqual([]);
    }
  });

  it('are in no output on success', async () => {
    const seen = await seenOf({ method: 'token', token: new Secret(marks.token) });
    expect(seen).toContain('control_key');
    expect(seen).toContain('the private key is');
    expect(marksIn(seen, marks)).toEqual([]);
  });

  it.each([
    ['a read that works', undefined],
    ['a read that is refused', { kind: 'status', status: 403, errors: echo } as const],
  ])('are not printed under DEBUG=*, in %s', async (_name, fault) => {
    if (fault !== undefined) setup.vault.fail(fault, /^secret/);
    const program = fileURLToPath(new URL('../support/stub-vault/read-once.ts', import.meta.url));
    const secretIdFile = setup.folder.file('secretId', marks.secretId);
    const child = spawn(process.execPath, [program, setup.vault.address, marks.token, secretIdFile], {
      env: { ...process.env, DEBUG: '*', NODE_OPTIONS: '' },
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => (output += String(chunk)));
    const [code] = await once(child, 'close');
    expect(code).toBe(0);
    expect(output).toContain(fault === undefined ? 'control_key' : 'key-source-unavailable');
    expect(marksIn(output, marks)).toEqual([]);
  });
});
