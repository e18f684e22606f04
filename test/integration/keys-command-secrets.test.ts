import { type FSWatcher, mkdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  KeysTestEnvironment,
  newControlKey,
  oldControlKey,
  oldKey,
} from '../support/keys-test-environment.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';
import { vectorText } from '../support/vectors.ts';

const encrypted = vectorText('keys/rsa-2048-encrypted.pem');
const passphrase = 'test passphrase';

const setup = new KeysTestEnvironment();
beforeAll(() => setup.open());
afterAll(() => setup.close());
beforeEach(async () => {
  setup.vault.heal();
  setup.printed.length = 0;
  await setup.forget();
  await setup.put({ control_key: oldControlKey, private_key: oldKey });
});

/** Every encoding in which a text could leak. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [
    secret,
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('hex'),
    encodeURIComponent(secret),
  ];
}

/** The lines of a PEM text that are key material. */
function linesOf(pem: string): string[] {
  return pem.split('\n').filter((line) => line.length > 40);
}

function expectNothingShown(...more: readonly string[]): void {
  const secrets = [oldControlKey, newControlKey, rootToken, passphrase, ...linesOf(oldKey), ...more];
  const text = setup.printed.join('\n');
  expect(text).not.toBe('');
  expect(secrets.flatMap(formsOf).filter((form) => text.includes(form))).toEqual([]);
  expect(text).not.toMatch(/BEGIN [A-Z ]*PRIVATE KEY/);
}

describe('secrets', () => {
  it.each([[], ['--json']])('are printed by no command %s', async (...json) => {
    setup.accept([oldControlKey], [oldKey]);
    const login = ['--login', 'acme', ...json];
    const from = ['--from', setup.folder.file('control_key', newControlKey)];
    const pem = ['--from', setup.folder.file('key.pem', encrypted)];
    const withPassphrase = ['--passphrase-file', setup.folder.file('passphrase', passphrase)];
    const codes = [
      await setup.run('list', ...login),
      await setup.run('generate', ...login, '--bits', '2048'),
      await setup.run('import', ...login, '--kind', 'control_key', ...from),
      await setup.run('import', ...login, '--kind', 'private_key', ...pem, ...withPassphrase),
      await setup.run('verify', ...login, '--interval', '0'),
      await setup.run('list', ...login),
      await setup.run('rollback', ...login, '--to-version', '1'),
    ].map(({ code }) => code);
    expect(codes).toEqual([0, 0, 0, 0, 1, 0, 0]);
    const { data } = await setup.admin.request('GET', 'secret/data/gateway/sandbox/acme?version=2');
    const generated: unknown = Object(data?.['data'])['private_key'];
    expectNothingShown(...linesOf(encrypted), ...linesOf(String(generated)));
  });

  it('are printed by no error', async () => {
    const login = ['--login', 'acme'];
    const file = (text: string) => ['--from', setup.folder.file('given', text)];
    const halfKey = `${oldKey.slice(0, 900)}\n-----END PRIVATE KEY-----\n`;
    const ran = [
      await setup.run('import', ...login, '--kind', 'private_key', ...file(halfKey)),
      await setup.run('import', ...login, '--kind', 'private_key', ...file(encrypted)),
      await setup.run('import', ...login, '--kind', 'control_key', ...file(oldKey)),
      await setup.run('import', ...login, '--kind', 'private_key', ...file(newControlKey)),
      await setup.run('import', ...login, '--kind', 'control_key', newControlKey),
      await setup.run('import', ...login, '--kind', newControlKey),
      await setup.run('import', ...login, '--kind', 'control_key', ...file(newControlKey), '--create'),
    ];
    expect(ran.map(({ code }) => code)).toEqual([1, 1, 1, 1, 2, 2, 1]);
    expectNothingShown(...linesOf(encrypted));
  });
});

describe('a failing Vault', () => {
  const problems = [
    [{ kind: 'status', status: 503 }, 'Vault is sealed (HTTP 503). Nothing was written.'],
    [{ kind: 'status', status: 502 }, 'Vault internal error (HTTP 502). The new version of sandbox/acme may'],
    [{ kind: 'status', status: 403 }, 'Vault denied permission (HTTP 403). Nothing was written.'],
    [{ kind: 'reset' }, 'Vault cannot be reached (ECONNRESET). The new version of sandbox/acme may have'],
    [{ kind: 'cut-json' }, 'not a Vault API (HTTP 200). The new version of sandbox/acme may'],
  ] as const;

  it.each(problems)('at the write by %j is reported truthfully', async (fault, text) => {
    setup.vault.seen.length = 0;
    const { child, ended } = setup.start('import', '--login', 'acme', '--kind', 'control_key');
    await until(() => setup.vault.count(/^GET secret\/metadata/) === 1, 'the version was read');
    setup.vault.fail(fault, /^secret\/data\/gateway\/sandbox\/acme$/);
    child.stdin.end(newControlKey);
    const { code, out, err } = await ended;
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toContain(text);
    expectNothingShown();
  });

  it.each([['list'], ['verify'], ['generate', '--bits', '2048'], ['rollback', '--to-version', '1']])(
    'before anything is done ends %s with its problem',
    async (name, ...options) => {
      setup.vault.sealed = true;
      const { code, out, err } = await setup.run(name, '--login', 'acme', ...options);
      expect({ code, out, err }).toEqual({
        code: 1,
        out: '',
        err: `countersign keys ${name}: Vault is sealed (HTTP 503)`,
      });
    },
  );

  it('that is unreachable is reported as such', async () => {
    const auth = { method: 'token', tokenFile: 'token' } as const;
    const keys = { source: 'vault', vault: { address: 'http://127.0.0.1:1', auth } } as const;
    const config = ['--config', setup.writeConfig('gone.yaml', { keys })];
    expect(await setup.run('list', '--login', 'acme', ...config)).toEqual({
      code: 1,
      out: '',
      err: 'countersign keys list: Vault cannot be reached (connection refused: ECONNREFUSED)',
    });
  });
});

describe('files', () => {
  let watcher: FSWatcher;
  const seen: string[] = [];
  const temporary = join(setup.folder.path, 'temporary');
  const before = process.env['TMPDIR'];

  beforeAll(() => {
    mkdirSync(temporary);
    process.env['TMPDIR'] = temporary;
    watcher = watch(temporary, (_event, name) => seen.push(String(name)));
  });
  afterAll(() => {
    watcher.close();
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  });

  it('are created in the temporary directory by no command', async () => {
    setup.accept([oldControlKey], [oldKey]);
    const from = ['--from', setup.folder.file('control_key', newControlKey)];
    const commands = [
      ['list'],
      ['generate', '--bits', '2048'],
      ['import', '--kind', 'control_key', ...from],
      ['verify', '--interval', '0'],
      ['rollback', '--to-version', '1'],
    ];
    for (const [name = '', ...options] of commands) {
      const { child, ended } = setup.start(name, '--login', 'acme', ...options);
      child.stdin.end();
      expect([name, (await ended).err]).toEqual([name, '']);
    }
    expect(seen).toEqual([]);
    setup.folder.file('temporary/proof', 'that the watcher works');
    await until(() => seen.includes('proof'), 'the watcher has seen a file');
  });
});
