import { mkdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  KeysTestEnvironment,
  newControlKey,
  oldControlKey,
  oldKey,
} from '../support/keys-test-environment.ts';
import { type Marks, marksIn } from '../support/secret-canaries.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';
import { vectorText } from '../support/vectors.ts';

const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
const passphrase = 'test passphrase';

const setup = new KeysTestEnvironment();
const { folder } = setup;
const file = (text: string): string => folder.file(`given-${text.length}`, text);
beforeAll(() => setup.open());
afterAll(() => setup.close());
beforeEach(async () => {
  setup.vault.heal();
  setup.printed.length = 0;
  await setup.forget();
  await setup.put({ control_key: oldControlKey, private_key: oldKey });
  setup.accept([oldControlKey], [oldKey]);
});

function expectNothingShown(...pems: readonly string[]): void {
  const lines = [oldKey, encrypted, ...pems].flatMap((pem) => pem.split('\n'));
  const marks: Marks = { oldControlKey, newControlKey, rootToken, passphrase };
  const keyMaterial = Object.fromEntries(lines.filter((line) => line.length > 40).entries());
  const text = setup.printed.join('\n');
  expect(text).not.toBe('');
  expect(marksIn(text, { ...marks, ...keyMaterial })).toEqual([]);
  expect(text).not.toMatch(/BEGIN [A-Z ]*PRIVATE KEY/);
}

it.each(['', ' --json'])('secrets are printed by no command%s', async (json) => {
  const acme = `--login acme${json}`;
  const pem = folder.file('key.pem', encrypted);
  const withPassphrase = `--passphrase-file ${folder.file('passphrase', passphrase)}`;
  const codes: (number | null)[] = [];
  for (const line of [
    `list ${acme}`,
    `generate ${acme} --bits 2048`,
    `import ${acme} --kind control_key --from ${file(newControlKey)}`,
    `import ${acme} --kind private_key --from ${pem} ${withPassphrase}`,
    `verify ${acme} --interval 0`,
    `list ${acme}`,
    `rollback ${acme} --to-version 1`,
  ])
    codes.push((await setup.run(line)).code);
  expect(codes).toEqual([0, 0, 0, 0, 1, 0, 0]);
  const { data } = await setup.admin.request('GET', 'secret/data/gateway/sandbox/acme?version=2');
  expectNothingShown(String(Object(data?.['data'])['private_key']));
});

it.each([
  ['private_key', `${oldKey.slice(0, 900)}\n-----END PRIVATE KEY-----\n`],
  ['control_key', oldKey],
  ['private_key', newControlKey],
])('secrets are printed by no error: %s (%#)', async (kind, text) => {
  const { code } = await setup.run(`import --login acme --kind ${kind} --from ${file(text)}`);
  expect(code).toBe(1);
  expectNothingShown();
});

it.each([
  [`--kind control_key ${newControlKey}`, 2],
  [`--kind control_key --create --from ${file(newControlKey)}`, 1],
])('secrets are printed by no usage error (%#)', async (options, code) => {
  expect((await setup.run(`import --login acme ${options}`)).code).toBe(code);
  expectNothingShown();
});

describe('a failing Vault', () => {
  it.each(['list', 'verify', 'generate --bits 2048', 'rollback --to-version 1'])(
    'before anything is done ends %s with its problem, and the way to a token that may do it',
    async (line) => {
      setup.vault.fail({ kind: 'status', status: 403 }, /^secret\//);
      const err = `countersign keys ${line.split(' ')[0]}: Vault denied permission (HTTP 403) to the login of the configuration. Run "vault login" for your own.`;
      expect(await setup.run(`${line} --login acme`)).toEqual({ code: 1, out: '', err });
    },
  );

  it('that is unreachable is reported as such', async () => {
    const auth = { method: 'token', tokenFile: 'token' } as const;
    const keys = { source: 'vault', vault: { address: 'http://127.0.0.1:1', auth } } as const;
    const err = 'countersign keys list: Vault cannot be reached (connection refused: ECONNREFUSED)';
    const config = setup.writeConfig('gone.yaml', { keys });
    expect(await setup.run(`list --login acme --config ${config}`)).toEqual({ code: 1, out: '', err });
  });
});

it('no command creates a file in the temporary directory', async () => {
  const seen: string[] = [];
  const temporary = join(folder.path, 'temporary');
  mkdirSync(temporary);
  const watcher = watch(temporary, (_event, name) => seen.push(String(name)));
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = temporary;
  try {
    const given = file(newControlKey);
    for (const line of ['generate --bits 2048', `import --kind control_key --from ${given}`]) {
      const { child, ended } = setup.start(`${line} --login acme`);
      child.stdin.end();
      expect([line, (await ended).err]).toEqual([line, '']);
    }
    expect(seen).toEqual([]);
    folder.file('temporary/proof', 'that the watcher works');
    await until(() => seen.includes('proof'), 'the watcher has seen a file');
  } finally {
    watcher.close();
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
}, 20_000);
