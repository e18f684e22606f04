import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
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
const path = 'gateway/sandbox/acme';
const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
const passphrase = 'test passphrase';
const small = 'generate --login acme --bits 2048';

beforeAll(() => setup.open());
afterAll(() => setup.close());
beforeEach(async () => {
  setup.vault.heal();
  await setup.forget();
  await setup.put({ control_key: oldControlKey, private_key: oldKey, note: 'kept' });
});

async function currentVersion(): Promise<unknown> {
  const { data } = await setup.admin.request('GET', `secret/metadata/${path}`);
  return data?.['current_version'];
}

const listed = async (line: string) => JSON.parse((await setup.run(`${line} --json`)).out);
const importOf = (kind: string, text: string | Buffer = newControlKey) =>
  setup.run(`import --login acme --kind ${kind}`, '--from', setup.folder.file('given', text));
const importKey = () => importOf('control_key');
const widthOf = (out: string): number => Math.max(...out.split('\n').map(({ length }) => length));

function publicKeyOf(fields: Record<string, unknown>): string {
  const publicKey = createPublicKey(createPrivateKey(String(fields['private_key'])));
  return publicKey.export({ type: 'spki', format: 'pem' });
}

/** It ends with code 1 and says this, and the current version is the one before. */
async function expectNothingWritten(line: string, problem: string, version: number): Promise<void> {
  const { code, out, err } = await setup.run(line);
  expect({ code, out, err }).toEqual({ code: 1, out: '', err: expect.stringContaining(problem) });
  expect(err).toContain('Nothing was written.');
  expect(await currentVersion()).toBe(version);
}

describe('on a newest version without content', () => {
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
    const problem = `: the current version 2 of sandbox/acme is ${state}: a new version would lose the login's other key. Nothing was written. First ${way}; then retry.`;
    const from = `--from ${setup.folder.file('new-control-key', newControlKey)}`;
    for (const line of [small, `import --login acme --kind control_key ${from}`])
      await expectNothingWritten(line, problem, 2);
    expect((await setup.run('rollback --login acme --to-version 1')).code).toBe(0);
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
    expect(code).toBe(1);
    expect(err).toContain(`Nothing was written. First ${way}; then retry.`);
  });

  it('a version that will only be deleted later is usable until then', async () => {
    const times = { created_time: '2026-01-15T12:00:00Z', deletion_time: '2999-01-01T00:00:00Z' };
    const versions = { '2': { ...times, destroyed: false } };
    const body = { data: { current_version: 2, max_versions: 0, versions } };
    setup.vault.fail({ kind: 'json', body }, /^secret\/metadata/);
    expect(await importKey()).toMatchObject({ code: 0, err: '' });
  });
});

describe('keys list', () => {
  it('shows every version with kind, age and fingerprint, newest first, within 100 columns', async () => {
    await setup.put({ control_key: newControlKey, private_key: oldKey });
    await setup.put({ control_key: newControlKey, private_key: 'no PEM' });
    const { code, out } = await setup.run('list --login acme');
    expect(code).toBe(0);
    expect(out.replaceAll(/ \d+s /g, ' 0s ').split('\n')).toEqual([
      'sandbox/acme',
      'VERSION  KIND         AGE  KEY',
      '3        control_key  0s   9b1d',
      '3        private_key  0s   the private key (field private_key) is not a PEM private key; store the',
      '                           file of the key whole, from its first line to its last',
      '2        control_key  0s   9b1d',
      `2        private_key  0s   ${oldFingerprint}`,
      '1        control_key  0s   cfbe',
      `1        private_key  0s   ${oldFingerprint}`,
    ]);
    expect(widthOf(out)).toBeLessThanOrEqual(100);
  });

  it('distinguishes deleted, destroyed and empty versions', async () => {
    for (const fields of [{ note: 'no key' }, { control_key: newControlKey }, { note: 'no key' }])
      await setup.put(fields);
    await setup.admin.destroy(path, [1]);
    await setup.admin.deleteVersions(path, [3]);
    const states = ['destroyed', 'superseded', 'deleted', 'current'];
    const versions = states.map((state, index) => {
      return { version: index + 1, createdAt: expect.any(String), state, keys: [] };
    });
    expect(await listed('list --login acme')).toEqual({
      environment: 'sandbox',
      logins: [{ login: 'acme', versions: versions.toReversed() }],
    });
    const lines = (await setup.run('list --login acme')).out.split('\n').slice(2);
    expect(lines.map((line) => line.trim().replace(/ +\S+ +\d+s +/, ' '))).toEqual([
      '4 no key',
      '3 deleted',
      '2 no key',
      '1 destroyed',
    ]);
  });

  it('without a login shows the current version of each, and no secret under a name that none can have', async () => {
    await setup.put({ control_key: oldControlKey }, 'beta');
    await setup.put({ control_key: newControlKey }, 'beta');
    await setup.put({ control_key: oldControlKey }, 'odd name\u001b[2J');
    const { code, out, err } = await setup.run('list');
    expect([code, err, out.match(/^sandbox\/\S+/gm)]).toEqual([0, '', ['sandbox/acme', 'sandbox/beta']]);
    expect(out.replaceAll(/ +/g, ' ').replaceAll(/ \d+s /g, ' 0s ')).toMatch(
      /\nsandbox\/beta\nVERSION KIND AGE KEY\n2 control_key 0s 9b1d$/,
    );
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

  it('fails for a login without keys', async () => {
    const err = 'countersign keys list: sandbox/acmee has no keys; check the spelling';
    expect(await setup.run('list --login acmee')).toEqual({ code: 1, out: '', err });
  });
});

describe('keys generate', () => {
  it('writes a new private key, keeps the other fields, prints the public key and its fingerprint', async () => {
    const file = join(setup.folder.path, 'generated.pem');
    const { code, out } = await setup.run(small, '--public-key', file);
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
    const { logins } = await listed('list --login acme');
    expect(out).toContain(`SHA-256 ${logins[0].versions[0].keys[1].fingerprint}`);
  });

  it('generates 4096 bits by default, and removes the passphrase of the previous key', async () => {
    await setup.put({ private_key: encrypted, passphrase, note: 'kept' });
    const printed = await listed('generate --login acme');
    const fields = await setup.fields();
    expect(printed).toEqual({
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
    const gamma = 'generate --login gamma --bits 2048';
    expect(await setup.run(gamma)).toEqual({
      code: 1,
      out: '',
      err: 'countersign keys generate: sandbox/gamma has no secret in Vault. Check the spelling, or use --create to create it. Nothing was written.',
    });
    expect((await setup.run(`${gamma} --create`)).code).toBe(0);
    expect(Object.keys(await setup.fields('gamma'))).toEqual(['private_key']);
    const again = await setup.run(`${gamma} --create`);
    expect(again).toMatchObject({ code: 1, out: '' });
    expect(again.err).toContain('sandbox/gamma already exists (version 1).');
  });

  it('does not overwrite an existing public key', async () => {
    const file = setup.folder.file('there.pem', 'the key that the gateway was given');
    const { code, err } = await setup.run(small, '--public-key', file);
    expect(code).toBe(1);
    expect(err).toContain('there.pem already exists');
    expect(readFileSync(file, 'utf8')).toBe('the key that the gateway was given');
    expect(await currentVersion()).toBe(1);
  });

  it('reports that the key is in Vault if only the public key could not be written', async () => {
    const file = join(setup.folder.path, 'no-such-folder', 'new.pem');
    const { code, out, err } = await setup.run(small, '--public-key', file);
    expect(code).toBe(1);
    expect(out).toContain('-----BEGIN PUBLIC KEY-----');
    expect(err).toContain('copy it from the output above. The new version is in Vault.');
    expect(await currentVersion()).toBe(2);
  });
});

describe('keys import', () => {
  const reading = async (line: string) => {
    setup.vault.seen.length = 0;
    const started = setup.start(`import --login acme --kind control_key${line}`);
    await until(() => setup.vault.count(/^GET secret\/metadata/) === 1, 'it has read the version');
    return started;
  };

  it('reads a control key from standard input, and keeps the other fields', async () => {
    const { child, ended } = setup.start('import --login acme --kind control_key');
    child.stdin.end(`${newControlKey}\n`);
    const out = 'Wrote version 2 of sandbox/acme (new control key, fingerprint 9b1d)\n';
    expect(await ended).toEqual({ code: 0, out, err: '' });
    expect(await setup.fields()).toEqual({ control_key: newControlKey, private_key: oldKey, note: 'kept' });
  });

  it('lets one of two concurrent writers win, and reports to the other that nothing was written', async () => {
    const second = await reading('');
    expect((await importOf('control_key', 'first')).code).toBe(0);
    second.child.stdin.end('second');
    expect(await second.ended).toEqual({
      code: 1,
      out: '',
      err: 'countersign keys import: version 1 of sandbox/acme is no longer current: the secret was changed concurrently. Nothing was written. Check with "countersign keys list" and retry.\n',
    });
    expect(await setup.fields()).toMatchObject({ control_key: 'first' });
    expect(await currentVersion()).toBe(2);
  });

  it('does not overwrite a login that was created concurrently', async () => {
    await setup.forget();
    const { child, ended } = await reading(' --create');
    await setup.put({ control_key: 'first' });
    child.stdin.end('second');
    const { code, err } = await ended;
    expect(code).toBe(1);
    expect(err).toContain('sandbox/acme already exists: the secret was changed concurrently.');
    expect(await setup.fields()).toEqual({ control_key: 'first' });
  });

  it.each([
    [{ kind: 'status', status: 503 }, 'Vault is sealed (HTTP 503). Nothing was written.'],
    [{ kind: 'status', status: 502 }, 'Vault internal error (HTTP 502). The new version of sandbox/acme may'],
    [{ kind: 'status', status: 403 }, 'Vault denied permission (HTTP 403). Nothing was written.'],
    [{ kind: 'reset' }, 'Vault cannot be reached (ECONNRESET). The new version of sandbox/acme may have'],
    [{ kind: 'cut-json' }, 'not a Vault API (HTTP 200). The new version of sandbox/acme may'],
  ] as const)('reports a failure of the write truthfully: %j', async (fault, text) => {
    const { child, ended } = await reading('');
    setup.vault.fail(fault, /^secret\/data\/gateway\/sandbox\/acme$/);
    child.stdin.end(newControlKey);
    const { code, out, err } = await ended;
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toContain(text);
    expect(err).not.toContain(newControlKey);
  });

  it('imports an encrypted private key with its passphrase, and prints the public key', async () => {
    const file = setup.folder.file('passphrase', `${passphrase}\n`);
    const line = `import --login acme --kind private_key --passphrase-file ${file} --from`;
    const { code, out } = await setup.run(line, vectorPath('keys/rsa-2048-encrypted.pem'));
    expect(code).toBe(0);
    expect(out).toContain(`SHA-256 ${oldFingerprint}`);
    expect(await setup.fields()).toMatchObject({ private_key: encrypted, passphrase });
    const { out: list } = await setup.run('list --login acme');
    expect(list).toContain(`2        private_key  0s   ${oldFingerprint}`);
  });

  it.each([
    ['private_key', 'no PEM', 'given) is not a PEM private key'],
    ['control_key', 'two\nlines', 'given) has more than one line'],
    ['control_key', Buffer.from(`\ufeff${newControlKey}\r\n`, 'utf16le'), 'given) is in UTF-16'],
  ])('rejects an unusable %s before anything is written (%#)', async (kind, text, problem) => {
    const { code, err } = await importOf(kind, text);
    expect(code).toBe(1);
    expect(err).toContain(problem);
    expect(err).toContain('Nothing was written.');
    expect(await currentVersion()).toBe(1);
  });
});

describe('keys rollback', () => {
  it('writes exactly the fields of the earlier version as a new version', async () => {
    await setup.put({ control_key: newControlKey, private_key: oldKey, passphrase: 'x', more: 1 });
    expect(await setup.run('rollback --login acme --to-version 1')).toMatchObject({
      code: 0,
      out: [
        'Wrote version 3 of sandbox/acme (content of version 1)',
        '  control_key  cfbe',
        `  private_key  ${oldFingerprint}`,
      ].join('\n'),
    });
    expect(await setup.fields()).toEqual({ control_key: oldControlKey, private_key: oldKey, note: 'kept' });
  });

  it('goes to a version with one usable key, and says what is wrong with the other', async () => {
    await setup.put({ control_key: newControlKey, private_key: 'no PEM' });
    await setup.put({ control_key: oldControlKey });
    const { code, out } = await setup.run('rollback --login acme --to-version 2');
    expect(code).toBe(0);
    expect(out).toContain(
      '\n  control_key  9b1d\n  private_key  the private key (field private_key) is not a',
    );
  });

  it.each([
    ['acme --to-version 6', 'version 6 is already current.'],
    ['acme --to-version 7', 'version 7 does not exist or was deleted.'],
    ['acme --to-version 2', 'version 2 has no usable key.'],
    ['acme --to-version 3', 'no usable private_key, so the login would lose that of version 5.'],
    ['acme --to-version 4', 'no usable control_key, so the login would lose that of version 5.'],
    [
      'delta --to-version 1',
      ': sandbox/delta has no secret in Vault. Check the spelling. Nothing was written.',
    ],
  ])('writes nothing with --login %s', async (options, problem) => {
    const both = { control_key: newControlKey, transit_key: 'acme:1' };
    const versions = [{ control_key: '' }, { control_key: newControlKey }, { private_key: oldKey }, both, {}];
    for (const fields of versions) await setup.put(fields);
    await setup.admin.deleteVersions(path, [6]);
    await expectNothingWritten(`rollback --login ${options}`, problem, 6);
  });
});

it.each(['import --kind control_key --from FILE', 'generate --bits 2048', 'rollback --to-version 1'])(
  'keys %s does not say "nothing was written" when Vault writes and responds too late',
  async (line) => {
    await setup.put({ control_key: newControlKey });
    const { address } = setup.admin;
    const auth = { method: 'token', tokenFile: 'token' } as const;
    const hasty = setup.writeConfig('hasty.yaml', {
      keys: { source: 'vault', vault: { address, auth, timeout: '500ms' } },
    });
    setup.vault.fail({ kind: 'late-write' }, /^secret\/data/);
    const key = setup.folder.file('late-control-key', 'third');
    expect(await setup.run(`${line.replace('FILE', key)} --login acme`, '--config', hasty)).toEqual({
      code: 1,
      out: '',
      err: `countersign keys ${line.split(' ')[0]}: Vault did not respond in time. The new version of sandbox/acme may have been written: check with "countersign keys list".`,
    });
    expect(await currentVersion()).toBe(3);
  },
);

describe('keys', () => {
  it('reads a token from a file', async () => {
    setup.folder.file('wrong', 'no-such-token');
    const auth = { method: 'token', tokenFile: 'wrong' } as const;
    const inVault = { source: 'vault', vault: { address: setup.admin.address, auth } } as const;
    const config = setup.writeConfig('wrong.yaml', { keys: inVault });
    const list = `list --config ${config} --login acme`;
    expect((await setup.run(list)).code).toBe(1);
    expect((await setup.run(`${list} --token-file ${setup.folder.at('token')}`)).code).toBe(0);
  });

  it('ends the Vault token that it logged in for, whether it reads or writes', async () => {
    const { admin } = setup;
    await admin.enable('auth', 'approle', { type: 'approle' });
    await admin.policy('keys');
    const roleId = await admin.role('approle', 'keys', { token_policies: ['keys'], token_ttl: '1h' });
    const secretIdFile = setup.folder.file('secret-id', await admin.secretId('approle', 'keys'));
    const auth = { method: 'approle', roleId, secretIdFile } as const;
    const inVault = { source: 'vault', vault: { address: admin.address, auth } } as const;
    const options = `--config ${setup.writeConfig('approle.yaml', { keys: inVault })} --login acme`;
    const key = setup.folder.file('next-control-key', newControlKey);
    const before = await admin.countTokens();
    for (const line of [`list ${options}`, `import ${options} --kind control_key --from ${key}`])
      expect(await setup.run(line)).toMatchObject({ code: 0, err: '' });
    expect(await admin.countTokens()).toBe(before);
  });

  it.each([
    ['list --login ../beta', '--login must be 1 to 128 of'],
    ['list --environment prod', 'unknown environment "prod"; configured: sandbox'],
    ['generate', '--login LOGIN is required'],
    ['generate --login acme --bits 1024', '--bits'],
    ['import --login acme', '--kind must be control_key or private_key'],
    [`import --login acme --kind control_key ${newControlKey}`, 'unexpected positional argument'],
    ['rollback --login acme', '--to-version N is required'],
    ['rollback --login acme --to-version x', '--to-version must be a whole number'],
    ['verify --login acme --interval x', '--interval'],
    ['remove', 'unknown subcommand "remove"'],
  ])('responds to "%s" with a hint and exit code 2', async (line, hint) => {
    const { code, out, err } = await setup.run(line);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(hint);
    expect(err).not.toContain(newControlKey);
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

  it.each(['list', 'generate', 'import', 'verify', 'rollback'])('explain %s', async (name) => {
    const { code, out } = await setup.run(`${name} --help`);
    expect(code).toBe(0);
    expect(out).toContain(`Usage: countersign keys ${name} --config FILE --environment NAME`);
    expect(widthOf(out)).toBeLessThanOrEqual(110);
  });
});
