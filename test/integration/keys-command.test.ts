import { createPrivateKey, createPublicKey } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { keys } from '../../src/cli/keys/keys.ts';
import { runCommandHere } from '../support/cli.ts';
import {
  KeysTestEnvironment,
  newControlKey,
  oldControlKey,
  oldFingerprint,
  oldKey,
} from '../support/keys-test-environment.ts';
import { until } from '../support/until.ts';
import { vectorPath, vectorText } from '../support/vectors.ts';

const setup = new KeysTestEnvironment();
const small = ['--login', 'acme', '--bits', '2048'];

beforeAll(() => setup.open());
afterAll(() => setup.close());
beforeEach(async () => {
  await setup.forget();
  await setup.put({ control_key: oldControlKey, private_key: oldKey, note: 'kept' });
});

async function currentVersion(): Promise<unknown> {
  const { data } = await setup.admin.request('GET', 'secret/metadata/gateway/sandbox/acme');
  return data?.['current_version'];
}

describe('on a newest version without content', () => {
  const path = 'gateway/sandbox/acme';
  const importKey = () =>
    setup.run('import', '--login', 'acme', '--kind', 'control_key', '--from', keyFile());
  const keyFile = () => setup.folder.file('new-control-key', newControlKey);

  beforeEach(() => setup.put({ control_key: newControlKey, private_key: oldKey }));

  it.each([
    [
      'deleted',
      'undelete it ("vault kv undelete"), or restore an earlier version ("countersign keys rollback --to-version 1")',
    ],
    ['destroyed', 'restore an earlier version ("countersign keys rollback --to-version 1")'],
  ] as const)('that is %s, keys import and generate fail, and say what to do', async (state, way) => {
    if (state === 'deleted') await setup.admin.deleteVersions(path, [2]);
    else await setup.admin.destroy(path, [2]);
    for (const run of [importKey, () => setup.run('generate', ...small)]) {
      const { code, err, out } = await run();
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toContain(
        `: the current version 2 of sandbox/acme is ${state}: a new version would lose the login's other key. Nothing was written. First ${way}; then retry.`,
      );
      expect(await currentVersion()).toBe(2);
    }
    expect((await setup.run('rollback', '--login', 'acme', '--to-version', '1')).code).toBe(0);
    expect((await importKey()).code).toBe(0);
    expect(await setup.fields()).toMatchObject({ control_key: newControlKey, private_key: oldKey });
  });

  it.each([
    ['destroyed', [2], [1], 'undelete an earlier version'],
    ['deleted', [1], [2], 'undelete it ("vault kv undelete")'],
  ])('that is %s, and no earlier one is usable, the advice is to undelete', async (_, gone, deleted, way) => {
    await setup.admin.destroy(path, gone);
    await setup.admin.deleteVersions(path, deleted);
    const { code, err } = await importKey();
    expect([code, err]).toEqual([
      1,
      expect.stringContaining(`Nothing was written. First ${way}; then retry.`),
    ]);
  });

  it('a version that will only be deleted later is usable until then', async () => {
    const info = {
      created_time: '2026-01-15T12:00:00Z',
      deletion_time: '2999-01-01T00:00:00Z',
      destroyed: false,
    };
    const body = { data: { current_version: 2, max_versions: 0, versions: { '2': info } } };
    setup.vault.fail({ kind: 'json', body }, /^secret\/metadata/);
    try {
      expect(await importKey()).toMatchObject({ code: 0, err: '' });
    } finally {
      setup.vault.heal();
    }
  });

  it('if all versions are destroyed, keys import succeeds: there is nothing to lose', async () => {
    await setup.admin.destroy(path, [1, 2]);
    expect((await importKey()).code).toBe(0);
    expect(await setup.fields()).toEqual({ control_key: newControlKey });
  });
});

describe('keys list', () => {
  it('shows every version with kind, age and fingerprint, newest first, within 100 columns', async () => {
    await setup.put({ control_key: newControlKey, private_key: oldKey });
    await setup.put({ control_key: newControlKey, private_key: 'no PEM' });
    const { code, out } = await setup.run('list', '--login', 'acme');
    expect(code).toBe(0);
    expect(out.replaceAll(/ \d+s /g, ' 0s ').split('\n')).toEqual([
      'sandbox/acme',
      'VERSION  KIND         AGE  KEY',
      '3        control_key  0s   9b1d, same as version 2',
      '3        private_key  0s   the private key (field private_key) is not a PEM private key; store the',
      '                           file of the key whole, from its first line to its last',
      '2        control_key  0s   9b1d',
      `2        private_key  0s   ${oldFingerprint}`,
      '1        control_key  0s   cfbe',
      `1        private_key  0s   ${oldFingerprint}`,
    ]);
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  it('distinguishes deleted, destroyed and empty versions', async () => {
    await setup.put({ note: 'no key' });
    await setup.put({ control_key: newControlKey });
    await setup.put({ note: 'no key' });
    await setup.admin.destroy('gateway/sandbox/acme', [1]);
    await setup.admin.deleteVersions('gateway/sandbox/acme', [3]);
    const { out } = await setup.run('list', '--login', 'acme', '--json');
    expect(JSON.parse(out)).toEqual({
      environment: 'sandbox',
      others: [],
      logins: [
        {
          login: 'acme',
          versions: [
            { version: 4, createdAt: expect.any(String), state: 'current', keys: [] },
            { version: 3, createdAt: expect.any(String), state: 'deleted', keys: [] },
            { version: 2, createdAt: expect.any(String), state: 'superseded', keys: [] },
            { version: 1, createdAt: expect.any(String), state: 'destroyed', keys: [] },
          ],
        },
      ],
    });
    const lines = (await setup.run('list', '--login', 'acme')).out.split('\n').slice(2);
    expect(lines.map((line) => line.trim().replace(/ +\S+ +\d+s +/, ' '))).toEqual([
      '4 no key',
      '3 deleted',
      '2 no key',
      '1 destroyed',
    ]);
  });

  it('prints the public key and its length as JSON', async () => {
    const { out } = await setup.run('list', '--login', 'acme', '--json');
    expect(JSON.parse(out).logins[0].versions[0].keys).toEqual([
      { kind: 'control_key', fingerprint: 'cfbe' },
      {
        kind: 'private_key',
        fingerprint: oldFingerprint,
        bits: 2048,
        publicKey: vectorText('keys/rsa-2048-public.pem').trimEnd(),
      },
    ]);
  });

  it('shows the current version of every login if none is named', async () => {
    await setup.put({ control_key: oldControlKey }, 'beta');
    await setup.put({ control_key: newControlKey }, 'beta');
    const { out } = await setup.run('list');
    const lines = out.split('\n').map((line) => line.replaceAll(/ +/g, ' ').replace(/ \d+s /, ' 0s '));
    expect(lines).toContain('sandbox/acme');
    expect(lines.slice(lines.indexOf('sandbox/beta'))).toEqual([
      'sandbox/beta',
      'VERSION KIND AGE KEY',
      '2 control_key 0s 9b1d',
    ]);
  });

  it('lists the others if a secret has a name that no login has, and names it', async () => {
    await setup.put({ control_key: oldControlKey }, 'odd name\u001b[2J');
    await setup.put({ control_key: oldControlKey }, 'beta');
    const { code, out, err } = await setup.run('list');
    expect([code, out.match(/^sandbox\/\S+$/gm)]).toEqual([0, ['sandbox/acme', 'sandbox/beta']]);
    expect(err).toMatch(/^Not a login, and never read: "odd name\?\[2J"\. A login has 1 to 128 of/);
    expect(JSON.parse((await setup.run('list', '--json')).out).others).toEqual(['odd name\u001b[2J']);
  });

  it('lists the others if one login cannot be read, says why, and fails', async () => {
    await setup.put({ control_key: oldControlKey, note: 'x'.repeat(1_100_000) }, 'large');
    await setup.put({ control_key: oldControlKey }, 'other');
    const { code, out } = await setup.run('list');
    expect(code).toBe(1);
    expect(out.match(/^sandbox\/\S+$/gm)).toEqual(
      expect.arrayContaining(['sandbox/acme', 'sandbox/large', 'sandbox/other']),
    );
    expect(out).toContain(
      'cannot be read: the secret is larger than 1 MiB; store only the fields of the keys in it',
    );
  });

  it('ends at the first login if Vault fails, and blames no login', async () => {
    setup.vault.fail({ kind: 'status', status: 500 }, /^secret\/data/);
    try {
      expect(await setup.run('list')).toEqual({
        code: 1,
        out: '',
        err: 'countersign keys list: Vault internal error (HTTP 500)',
      });
    } finally {
      setup.vault.heal();
    }
  });

  it('fails for a login without keys', async () => {
    const { code, err } = await setup.run('list', '--login', 'acmee');
    expect({ code, err }).toEqual({
      code: 1,
      err: 'countersign keys list: sandbox/acmee has no keys; check the spelling',
    });
  });
});

describe('keys generate', () => {
  it('writes a new private key, keeps the other fields, prints the public key and its fingerprint', async () => {
    const file = join(setup.folder.path, 'generated.pem');
    const { code, out } = await setup.run('generate', ...small, '--public-key', file);
    expect(code).toBe(0);
    const fields = await setup.fields();
    expect(fields).toEqual({
      control_key: oldControlKey,
      private_key: expect.stringContaining('-----BEGIN PRIVATE KEY-----'),
      note: 'kept',
    });
    const publicKey = publicKeyOf(fields);
    expect(out).toContain('Wrote version 2 of sandbox/acme (new RSA key, 2048 bits)');
    expect(out).toContain(publicKey.trimEnd());
    expect(readFileSync(file, 'utf8')).toBe(publicKey);
    const listed = JSON.parse((await setup.run('list', '--login', 'acme', '--json')).out);
    expect(out).toContain(`SHA-256 ${listed.logins[0].versions[0].keys[1].fingerprint}`);
  });

  it('generates 4096 bits by default, and removes the passphrase of the previous key', async () => {
    const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
    await setup.put({ private_key: encrypted, passphrase: 'test passphrase', note: 'kept' });
    const { out } = await setup.run('generate', '--login', 'acme', '--json');
    const fields = await setup.fields();
    expect(JSON.parse(out)).toEqual({
      environment: 'sandbox',
      login: 'acme',
      version: 3,
      previousVersion: 2,
      kind: 'private_key',
      bits: 4096,
      fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/),
      publicKey: publicKeyOf(fields).trimEnd(),
    });
    expect(Object.keys(fields).sort()).toEqual(['note', 'private_key']);
  });

  it('creates a login only with --create, and with it only one that does not exist', async () => {
    const { code, err } = await setup.run('generate', '--login', 'gamma', '--bits', '2048');
    expect({ code, err }).toEqual({
      code: 1,
      err: 'countersign keys generate: sandbox/gamma has no secret in Vault. Check the spelling, or use --create to create it. Nothing was written.',
    });
    expect((await setup.run('generate', '--login', 'gamma', '--bits', '2048', '--create')).code).toBe(0);
    expect(Object.keys(await setup.fields('gamma'))).toEqual(['private_key']);
    const again = await setup.run('generate', '--login', 'gamma', '--bits', '2048', '--create');
    expect(again).toMatchObject({ code: 1, out: '' });
    expect(again.err).toContain('sandbox/gamma already exists (version 1).');
  });

  it('writes nothing if the newest version is not the expected one', async () => {
    await setup.put({ control_key: newControlKey });
    const { code, err } = await setup.run('generate', ...small, '--cas', '1');
    expect(code).toBe(1);
    expect(err).toContain('version 1 of sandbox/acme is no longer current');
    expect(err).toContain('Nothing was written.');
    expect(await currentVersion()).toBe(2);
    expect((await setup.run('generate', ...small, '--cas', '2')).code).toBe(0);
  });

  it('does not overwrite an existing public key', async () => {
    const file = setup.folder.file('there.pem', 'the key that the gateway was given');
    const { code, err } = await setup.run('generate', ...small, '--public-key', file);
    expect(code).toBe(1);
    expect(err).toContain('there.pem already exists');
    expect(readFileSync(file, 'utf8')).toBe('the key that the gateway was given');
    expect(await currentVersion()).toBe(1);
  });

  it('reports that the key is in Vault if only the public key could not be written', async () => {
    const file = join(setup.folder.path, 'no-such-folder', 'new.pem');
    const { code, out, err } = await setup.run('generate', ...small, '--public-key', file);
    expect(code).toBe(1);
    expect(out).toContain('-----BEGIN PUBLIC KEY-----');
    expect(err).toContain('copy it from the output above. The new version is in Vault.');
    expect(await currentVersion()).toBe(2);
  });

  it.each(['1024', '9000', 'many', '-1'])('rejects %s bits', async (bits) => {
    expect(await setup.run('generate', '--login', 'acme', `--bits=${bits}`)).toMatchObject({ code: 2 });
  });
});

describe('keys import', () => {
  it('reads a control key from standard input, and keeps the other fields', async () => {
    const { child, ended } = setup.start('import', '--login', 'acme', '--kind', 'control_key');
    child.stdin.end(`${newControlKey}\n`);
    expect(await ended).toEqual({
      code: 0,
      out: 'Wrote version 2 of sandbox/acme (new control key, fingerprint 9b1d)\n',
      err: '',
    });
    expect(await setup.fields()).toEqual({ control_key: newControlKey, private_key: oldKey, note: 'kept' });
  });

  it('lets one of two concurrent writers win, and reports to the other that nothing was written', async () => {
    setup.vault.seen.length = 0;
    const writers = [1, 2].map(() => setup.start('import', '--login', 'acme', '--kind', 'control_key'));
    await until(() => setup.vault.count(/^GET secret\/metadata/) === 2, 'both have read the version');
    const [first, second] = writers;
    first?.child.stdin.end('first');
    expect(await first?.ended).toMatchObject({ code: 0 });
    second?.child.stdin.end('second');
    expect(await second?.ended).toEqual({
      code: 1,
      out: '',
      err: 'countersign keys import: version 1 of sandbox/acme is no longer current: the secret was changed concurrently. Nothing was written. Check with "countersign keys list" and retry.\n',
    });
    expect(await setup.fields()).toMatchObject({ control_key: 'first' });
    expect(await currentVersion()).toBe(2);
  });

  it('does not overwrite a login that was created concurrently', async () => {
    await setup.forget();
    setup.vault.seen.length = 0;
    const options = ['--login', 'acme', '--kind', 'control_key', '--create'];
    const { child, ended } = setup.start('import', ...options);
    await until(() => setup.vault.count(/^GET secret\/metadata/) === 1, 'it has seen that there is none');
    await setup.put({ control_key: 'first' });
    child.stdin.end('second');
    const { code, err } = await ended;
    expect(code).toBe(1);
    expect(err).toContain('sandbox/acme already exists: the secret was changed concurrently.');
    expect(await setup.fields()).toEqual({ control_key: 'first' });
  });

  it('removes the passphrase of the previous key with a private key that has none', async () => {
    const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
    await setup.put({ private_key: encrypted, passphrase: 'test passphrase', note: 'kept' });
    const from = ['--from', vectorPath('keys/rsa-2048-pkcs8.pem')];
    expect((await setup.run('import', '--login', 'acme', '--kind', 'private_key', ...from)).code).toBe(0);
    const fields = await setup.fields();
    expect([fields['private_key'], fields['note']]).toEqual([vectorText('keys/rsa-2048-pkcs8.pem'), 'kept']);
    expect(fields).not.toHaveProperty('passphrase');
  });

  it('imports an encrypted private key with its passphrase, and prints the public key', async () => {
    const passphrase = setup.folder.file('passphrase', 'test passphrase\n');
    const from = ['--from', vectorPath('keys/rsa-2048-encrypted.pem'), '--passphrase-file', passphrase];
    const { code, out } = await setup.run('import', '--login', 'acme', '--kind', 'private_key', ...from);
    expect(code).toBe(0);
    expect(out).toContain(`SHA-256 ${oldFingerprint}`);
    expect(await setup.fields()).toMatchObject({
      private_key: vectorText('keys/rsa-2048-encrypted.pem'),
      passphrase: 'test passphrase',
    });
    expect((await setup.run('list', '--login', 'acme')).out).toContain(
      `2        private_key  0s   ${oldFingerprint}`,
    );
  });

  it.each([
    ['private_key', 'no PEM', 'given) is not a PEM private key'],
    ['private_key', vectorText('keys/rsa-2048-encrypted.pem'), 'needs a passphrase'],
    [
      'private_key',
      vectorText('keys/rsa-2048-public.pem'),
      'given) is a public key; store the private key that belongs to it',
    ],
    ['control_key', '', 'given) is empty'],
    ['control_key', 'two\nlines', 'given) has more than one line'],
    ['control_key', `${newControlKey} `, 'given) ends with a blank (U+0020); remove it'],
    ['control_key', `${newControlKey}\n\n`, 'given) ends with a line end'],
    ['control_key', '{"control_key":"x"}', 'given) looks like JSON'],
    ['control_key', Buffer.from(`\ufeff${newControlKey}\r\n`, 'utf16le'), 'given) is in UTF-16'],
    ['control_key', '-----BEGIN PRIVATE KEY-----', 'given) looks like PEM'],
  ])('rejects an unusable %s before anything is written (%#)', async (kind, text, problem) => {
    const from = ['--from', setup.folder.file('given', text)];
    const { code, err } = await setup.run('import', '--login', 'acme', '--kind', kind, ...from);
    expect(code).toBe(1);
    expect(err).toContain(problem);
    expect(err).toContain('Nothing was written.');
    expect(await currentVersion()).toBe(1);
  });

  it('does not accept a key as an argument, and does not print it', async () => {
    const { code, err } = await setup.run(
      'import',
      '--login',
      'acme',
      '--kind',
      'control_key',
      newControlKey,
    );
    expect(code).toBe(2);
    expect(err).toContain('unexpected positional argument');
    expect(err).not.toContain(newControlKey);
  });
});

describe('keys rollback', () => {
  it('writes exactly the fields of the earlier version as a new version', async () => {
    await setup.put({ control_key: newControlKey, private_key: oldKey, passphrase: 'x', more: 1 });
    const { code, out } = await setup.run('rollback', '--login', 'acme', '--to-version', '1');
    expect({ code, out }).toEqual({
      code: 0,
      out: [
        'Wrote version 3 of sandbox/acme (content of version 1)',
        '  control_key  cfbe',
        `  private_key  ${oldFingerprint}`,
      ].join('\n'),
    });
    expect(await setup.fields()).toEqual({ control_key: oldControlKey, private_key: oldKey, note: 'kept' });
  });

  it.each([
    ['2', 'version 2 is already current.'],
    ['7', 'version 7 does not exist or was deleted.'],
  ])('does not go to version %s', async (to, problem) => {
    await setup.put({ control_key: newControlKey });
    const { code, err } = await setup.run('rollback', '--login', 'acme', '--to-version', to);
    expect(code).toBe(1);
    expect(err).toContain(problem);
    expect(await currentVersion()).toBe(2);
  });

  it('goes to a version with one usable key, and says what is wrong with the other', async () => {
    await setup.put({ control_key: newControlKey, private_key: 'no PEM' });
    await setup.put({ control_key: oldControlKey });
    const { code, out } = await setup.run('rollback', '--login', 'acme', '--to-version', '2');
    expect([code, out.split('\n').slice(1)]).toEqual([
      0,
      [
        '  control_key  9b1d',
        expect.stringContaining(
          '  private_key  the private key (field private_key) is not a PEM private key',
        ),
      ],
    ]);
  });

  it('does not go to a version without a usable key', async () => {
    await setup.put({ control_key: '' });
    await setup.put({ control_key: newControlKey });
    const { code, err } = await setup.run('rollback', '--login', 'acme', '--to-version', '2');
    expect({ code, err }).toEqual({
      code: 1,
      err: 'countersign keys rollback: version 2 has no usable key. Nothing was written.',
    });
  });

  it('suggests no option that it does not have for a login without a secret', async () => {
    const { code, err } = await setup.run('rollback', '--login', 'delta', '--to-version', '1');
    expect({ code, err }).toEqual({
      code: 1,
      err: 'countersign keys rollback: sandbox/delta has no secret in Vault. Check the spelling. Nothing was written.',
    });
  });

  it('writes nothing after a concurrent change', async () => {
    await setup.put({ control_key: newControlKey });
    const { code, err } = await setup.run(
      ...(['rollback', '--login', 'acme', '--to-version', '1', '--cas', '1'] as const),
    );
    expect(code).toBe(1);
    expect(err).toContain('the secret was changed concurrently');
  });
});

it.each([
  ['import', (key: string) => ['--login', 'acme', '--kind', 'control_key', '--from', key]],
  ['generate', () => small],
  ['rollback', () => ['--login', 'acme', '--to-version', '1']],
] as const)(
  'keys %s does not say "nothing was written" when Vault writes and responds too late',
  async (name, options) => {
    await setup.put({ control_key: newControlKey });
    const key = setup.folder.file('late-control-key', 'third');
    const { address } = setup.admin;
    const auth = { method: 'token', tokenFile: 'token' } as const;
    const hasty = setup.writeConfig('hasty.yaml', {
      keys: { source: 'vault', vault: { address, auth, timeout: '500ms' } },
    });
    setup.vault.fail({ kind: 'late-write' }, /^secret\/data/);
    try {
      expect(await setup.run(name, '--config', hasty, ...options(key))).toEqual({
        code: 1,
        out: '',
        err: `countersign keys ${name}: Vault did not respond in time. The new version of sandbox/acme may have been written: check with "countersign keys list".`,
      });
    } finally {
      setup.vault.heal();
    }
    expect(await currentVersion()).toBe(3);
  },
);

describe('keys', () => {
  it('reads a token from a file or a named environment variable', async () => {
    setup.folder.file('wrong', 'no-such-token');
    const auth = { method: 'token', tokenFile: 'wrong' } as const;
    const keys = { source: 'vault', vault: { address: setup.admin.address, auth } } as const;
    const config = ['--config', setup.writeConfig('wrong.yaml', { keys }), '--login', 'acme'];
    process.env['OPERATOR_TOKEN'] = 'stub-root-token';
    expect(await setup.run('list', ...config)).toMatchObject({ code: 1, out: '' });
    expect(await setup.run('list', ...config, '--token-env', 'OPERATOR_TOKEN')).toMatchObject({ code: 0 });
    const file = ['--token-file', join(setup.folder.path, 'token')];
    expect(await setup.run('list', ...config, ...file)).toMatchObject({ code: 0 });
    expect(await setup.run('list', ...config, ...file, '--token-env', 'X')).toMatchObject({ code: 2 });
    expect(await setup.run('list', ...config, '--token-env', 'NOT_SET_HERE')).toMatchObject({ code: 2 });
  });

  it('ends the Vault token that it logged in for, whether it reads or writes', async () => {
    const { admin } = setup;
    await admin.enable('auth', 'approle', { type: 'approle' });
    await admin.policy('keys', 'secret', 'gateway');
    const roleId = await admin.role('approle', 'keys', { token_policies: ['keys'], token_ttl: '1h' });
    const secretIdFile = setup.folder.file('secret-id', await admin.secretId('approle', 'keys'));
    const auth = { method: 'approle', roleId, secretIdFile } as const;
    const inVault = { source: 'vault', vault: { address: admin.address, auth } } as const;
    const config = ['--config', setup.writeConfig('approle.yaml', { keys: inVault }), '--login', 'acme'];
    const from = ['--kind', 'control_key', '--from', setup.folder.file('next-control-key', newControlKey)];
    const before = await admin.countTokens();
    expect(await setup.run('list', ...config)).toMatchObject({ code: 0, err: '' });
    expect(await setup.run('import', ...config, ...from)).toMatchObject({ code: 0, err: '' });
    expect(await admin.countTokens()).toBe(before);
  });

  it('does not need the files that only the proxy needs', async () => {
    const proxy = { tls: { certFile: '/tls/not-here.crt', keyFile: '/tls/not-here.key' } };
    const config = setup.writeConfig('proxy.yaml', { proxy });
    expect(existsSync('/tls/not-here.crt')).toBe(false);
    expect(await setup.run('list', '--config', config, '--login', 'acme')).toMatchObject({ code: 0 });
  });

  it.each([
    [['list', '--login', '../beta'], '--login must be 1 to 128 of'],
    [['list', '--environment', 'prod'], 'unknown environment "prod"; configured: sandbox'],
    [['list', '--environment', '__proto__'], 'unknown environment'],
    [['generate'], '--login LOGIN is required'],
    [['import', '--login', 'acme'], '--kind must be control_key or private_key'],
    [['rollback', '--login', 'acme'], '--to-version N is required'],
    [['rollback', '--login', 'acme', '--to-version', 'x'], '--to-version must be a whole number'],
    [['remove'], 'unknown subcommand "remove"'],
  ])('responds to %j with a hint and exit code 2', async ([name = '', ...options], hint) => {
    const { code, out, err } = await setup.run(name, ...options);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(hint);
    expect(err).toMatch(/See: countersign keys .*--help$/);
  });

  it.each([
    ['--config', 'x.yaml'],
    ['--environment', 'sandbox'],
  ])('need more than %s %s', async (...argv) => {
    expect(await runCommandHere(keys, 'list', ...argv)).toEqual({
      code: 2,
      out: '',
      err: 'countersign keys list: --config FILE and --environment NAME are required\nSee: countersign keys list --help',
    });
  });

  it.each(['list', 'generate', 'import', 'verify', 'rollback'])('explains %s', async (name) => {
    const { code, out } = await setup.run(name, '--help');
    expect(code).toBe(0);
    expect(out).toContain(`Usage: countersign keys ${name} --config FILE --environment NAME`);
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(110);
  });

  it('describes both ways to rotate a key', async () => {
    const { code, out } = await setup.run('--help');
    expect(code).toBe(0);
    for (const part of ['Rotating an RSA key: Vault first', 'Rotating a control key: gateway first']) {
      expect(out).toContain(part);
    }
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(110);
  });
});

function publicKeyOf(fields: Record<string, unknown>): string {
  const publicKey = createPublicKey(createPrivateKey(String(fields['private_key'])));
  return publicKey.export({ type: 'spki', format: 'pem' });
}
