import { createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { check } from '../../src/cli/check/check.ts';
import { explain } from '../../src/cli/explain/explain.ts';
import { transitNameOf } from '../../src/keys/vault/transit.ts';
import { Secret } from '../../src/secret.ts';
import { runCommandHere } from '../support/cli.ts';
import { KeysTestEnvironment, oldControlKey, oldKey } from '../support/keys-test-environment.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { describeVaults } from '../support/stub-vault/describe-vaults.ts';
import { policyFile, policyJson, rulesOf } from '../support/vault-policies.ts';

const callers = [
  {
    name: 'billing',
    credentials: [{ anonymous: true as const }],
    allow: [{ environments: ['*'], operations: ['transfer'], logins: ['acme'] }],
  },
];

describeVaults('keys generate --transit', (server) => {
  const setup = new KeysTestEnvironment();
  const { folder } = setup;

  function writeConfig(file: string, tokenFile: string): string {
    const { address } = setup.admin;
    const transit = { mounts: { sandbox: 'transit-sandbox' } };
    const vault = { address, auth: { method: 'token' as const, tokenFile }, transit };
    return setup.writeConfig(file, { keys: { source: 'vault', vault }, callers });
  }

  beforeAll(async () => {
    await setup.open(server.admin);
    await setup.admin.enable('mounts', 'transit-sandbox', { type: 'transit' });
    for (const policy of ['platform', 'proxy'] as const) {
      await setup.admin.policyText(policy, policyJson(policy, 'sandbox', true));
      folder.file(`${policy}-token`, await setup.admin.token({ policies: [policy], ttl: '1h' }));
    }
    setup.configFile = writeConfig('platform.yaml', 'platform-token');
    writeConfig('proxy.yaml', 'proxy-token');
  });

  afterAll(() => setup.close());

  beforeEach(async () => {
    await setup.admin.send('POST', 'transit-sandbox/keys/acme/config', { deletion_allowed: true });
    await setup.admin.send('DELETE', 'transit-sandbox/keys/acme');
    await setup.forget();
    await setup.put({ control_key: oldControlKey, private_key: oldKey, passphrase: 'of the old key' });
  });

  /** What the gateway accepts from now on, as the file of the command has it. */
  function register(...files: readonly string[]): void {
    const publicKeys = files.map((file) => createPublicKey(readFileSync(folder.at(file))));
    setup.gateway.simulator.keys.set('acme', {
      controlKeys: [new Secret(oldControlKey)],
      publicKeys,
    });
  }

  const generateOwn = 'generate --login acme --bits 2048';
  const generate = (file: string, more = '') =>
    setup.run(`${generateOwn} --transit${more}`, '--public-key', folder.at(file));
  const verify = () => setup.run('verify --login acme --interval 0');

  async function online() {
    const { code, out } = await runCommandHere(
      check,
      '--online',
      '--json',
      '--config',
      folder.at('proxy.yaml'),
    );
    const { checks }: { checks: { check: string; result: string; detail: string }[] } = JSON.parse(out);
    const row = checks.find((one) => one.check === 'key');
    return { code, result: row?.result, detail: row?.detail ?? '' };
  }

  it('moves a login to Transit, rotates it there, rolls it back, and moves it back', async () => {
    const moved = await generate('first.pem');
    expect(moved).toMatchObject({ code: 0, err: '' });
    expect(moved.out).toContain(
      'Wrote version 2 of sandbox/acme (new RSA key, 2048 bits, Transit key acme:1)',
    );
    expect(await setup.fields()).toEqual({ control_key: oldControlKey, transit_key: 'acme:1' });
    register('first.pem');
    const verified = await verify();
    expect(verified).toMatchObject({ code: 0, err: '' });
    expect(verified.out).toMatch(/2 +private_key +\d+s +[0-9a-f]{16} +accepted \(200\)/);
    expect(verified.out).toMatch(/1 +private_key +\d+s +\S+ +(rejected|unusable)/);

    const rotated = await generate('second.pem');
    expect(rotated.out).toContain(
      'Wrote version 3 of sandbox/acme (new RSA key, 2048 bits, Transit key acme:2)',
    );
    expect(readFileSync(folder.at('second.pem'), 'utf8')).not.toBe(
      readFileSync(folder.at('first.pem'), 'utf8'),
    );
    // The gateway still has the first one.
    expect((await verify()).out).toMatch(/3 +private_key .*rejected \(403\)/);

    const back = await setup.run('rollback --login acme --to-version 2');
    expect(back.out).toMatch(/\n {2}private_key {2}[0-9a-f]{64} {2}\(Transit key acme:1\)$/);
    expect((await verify()).code).toBe(0);
    const list = await setup.run('list --login acme');
    const listed = [...list.out.replaceAll(/\n {9,}/g, ' ').matchAll(/^(\d) .*\(Transit key acme:(\d)\)/gm)];
    expect(listed.map(([, version, inTransit]) => [version, inTransit])).toEqual([
      ['4', '1'],
      ['3', '2'],
      ['2', '1'],
    ]);

    const { out } = await setup.run(generateOwn);
    expect(out).toContain('Wrote version 5 of sandbox/acme (new RSA key, 2048 bits)');
    expect(await setup.fields()).toEqual({
      control_key: oldControlKey,
      private_key: expect.stringContaining('BEGIN PRIVATE KEY'),
    });
  }, 20_000);

  it('an imported private key takes the place of the one in Transit', async () => {
    await setup.put({ control_key: oldControlKey, transit_key: 'acme:1', passphrase: 'x' });
    const from = folder.file('own-key.pem', oldKey);
    const line = `import --login acme --kind private_key --from ${from}`;
    expect(await setup.run(line)).toMatchObject({ code: 0, err: '' });
    expect(await setup.fields()).toEqual({ control_key: oldControlKey, private_key: oldKey });
  });

  it('prints as JSON what it made, and takes the name that is given or in use', async () => {
    const { out } = await generate('json.pem', ' --transit-name pay.acme-1 --json');
    expect(JSON.parse(out)).toMatchObject({
      version: 2,
      kind: 'private_key',
      bits: 2048,
      transitKey: 'pay.acme-1:1',
    });
    expect((await generate('json2.pem')).out).toContain('Transit key pay.acme-1:2');
    const listed = JSON.parse((await setup.run('list --login acme --json')).out);
    expect(listed.logins[0].versions[0].keys[1]).toMatchObject({ transitKey: 'pay.acme-1:2', bits: 2048 });
  });

  it('writes nothing for a name, a length or an environment that Transit does not have', async () => {
    const before = await setup.fields();
    const transit = 'generate --login acme --transit';
    const without = setup.writeConfig('without.yaml');
    for (const [line, problem] of [
      [`${transit} --bits 2048 --transit-name ../x`, 'choose one with --transit-name'],
      [`${transit} --bits 2560`, '2048, 3072 or 4096'],
      [`${transit} --bits 8192`, '2048, 3072 or 4096'],
      ['generate --login acme --transit-name x', 'requires --transit'],
      [`${transit} --config ${without}`, 'keys.vault.transit.mounts has none for sandbox'],
    ] as const)
      expect((await setup.run(line)).err).toContain(problem);
    expect(await setup.fields()).toEqual(before);
  });

  it.each([
    ['can be exported', { type: 'rsa-2048', exportable: true }, 'it is exportable'],
    ['is of another application', { type: 'aes256-gcm96' }, 'it is of type aes256-gcm96'],
  ])('does not rotate a key of the name that %s', async (_what, settings, problem) => {
    const [path, before] = [`transit-sandbox/keys/${settings.type}`, await setup.fields()];
    await setup.admin.request('POST', path, settings);
    const { code, err } = await generate('unfit.pem', ` --transit-name ${settings.type}`);
    expect(code).toBe(1);
    expect(err).toContain(problem);
    const { data } = await setup.admin.request('GET', path);
    expect(data).toMatchObject({ latest_version: 1 });
    expect(await setup.fields()).toEqual(before);
  });

  it('one person can make a key, and another one can put it into use, but neither both', async () => {
    const { admin } = setup;
    const path = 'secret/data/gateway/sandbox/acme';
    await generate('before.pem');
    const maker = JSON.stringify({ path: rulesOf(policyFile('platform-transit', 'sandbox')) });
    await admin.policyText('maker', maker);
    await admin.policyText('approver', policyJson('platform', 'sandbox'));
    const as = async (policy: string) =>
      new VaultAdmin(admin.address, await admin.token({ policies: [policy], ttl: '1h' }));
    const [making, approving] = [await as('maker'), await as('approver')];
    const fields = { control_key: oldControlKey, transit_key: 'acme:2', private_key: '', passphrase: '' };
    const write = { options: { cas: 2 }, data: fields };
    const rotate = 'transit-sandbox/keys/acme/rotate';
    expect((await approving.send('POST', rotate, {})).status).toBe(403);
    expect((await making.send('POST', path, write)).status).toBe(403);
    expect((await making.send('POST', rotate, {})).status).toBe(200);
    expect((await approving.send('POST', path, write)).status).toBe(200);
    const list = await setup.run('list --login acme --json');
    const [newest] = JSON.parse(list.out).logins[0].versions;
    expect(newest).toMatchObject({ version: 3, keys: [{ kind: 'control_key' }, { transitKey: 'acme:2' }] });
  });

  it('verify shows a key with which Vault does not sign, and tries the others', async () => {
    await generate('disabled.pem');
    await generate('enabled.pem');
    register('enabled.pem');
    await setup.admin.policyText(
      'platform',
      policyJson('platform', 'sandbox', true).replace(/transit-sandbox.sign.+?sha2-256/, 'none'),
    );
    const without = await verify();
    expect(without.out).toMatch(/3 +private_key .*unusable: Vault denied permission \(HTTP 403\)/);
    expect(without.out).toMatch(/3 +control_key .*accepted/);
    await setup.admin.policyText('platform', policyJson('platform', 'sandbox', true));
    await setup.admin.request('POST', 'transit-sandbox/keys/acme/config', { min_encryption_version: 2 });
    const { out } = await verify();
    expect(out).toMatch(/3 +private_key .*accepted \(200\)/);
    expect(out.replaceAll(/\s+/g, ' ')).toMatch(
      /2 private_key .*unusable: the Transit key transit-sandbox\/keys\/acme no longer signs/,
    );
  });

  it('a signature can be explained', async () => {
    await generate('explained.pem');
    const form = folder.file('form', 'login=acme&client_orderid=1');
    const line = `--target /sandbox/gw/api/v4/status/1234 --form ${form} --config ${setup.configFile}`;
    const { out, code } = await runCommandHere(explain, ...line.split(' '));
    expect(code).toBe(0);
    expect(out).toContain('RSA key in Vault (Transit key acme, version 1), version 2');
    expect(out).toMatch(/oauth_signature="[A-Za-z0-9%]{300,}"/);
  });

  it('check --online reports the key, and what an auditor would object to', async () => {
    await generate('checked.pem');
    expect(await online()).toEqual({
      code: 0,
      result: 'ok',
      detail: expect.stringMatching(/^version 2, \d+s old, RSA 2048 bits, in Vault \(Transit key acme:1\)$/),
    });
    const settings = { exportable: true, allow_plaintext_backup: true, auto_rotate_period: '24h' };
    await setup.admin.request('POST', 'transit-sandbox/keys/acme/config', settings);
    await setup.admin.policyText('proxy', policyJson('platform', 'sandbox', true));
    const { result, detail } = await online();
    expect(result).toBe('warning');
    for (const objection of [
      'the Transit key is exportable',
      'the Transit key has allow_plaintext_backup',
      'the Transit key has auto_rotate_period',
      'the Transit key may be used for more than signing: transit-sandbox/keys/acme, transit-sandbox/keys/acme/rotate',
    ])
      expect(detail).toContain(objection);
    const mayRead = policyJson('proxy', 'sandbox', true).replace('transit-sandbox/sign/', 'none/sign/');
    await setup.admin.policyText('proxy', mayRead);
    expect(await online()).toMatchObject({
      code: 1,
      detail: expect.stringMatching(/denied permission \(update on transit-sandbox\/sign\/acme\/sha2-256\)/),
    });
    await setup.admin.policyText('proxy', policyJson('proxy', 'sandbox'));
    expect(await online()).toMatchObject({
      code: 1,
      result: 'failed',
      detail: expect.stringMatching(/denied permission/),
    });
    await setup.admin.policyText('proxy', policyJson('proxy', 'sandbox', true));
  });

  it('prints no secret', () => {
    const everything = setup.printed.join('\n');
    for (const secret of [oldControlKey, 'of the old key', 'PRIVATE KEY', 'vault:v'])
      expect(everything).not.toContain(secret);
    expect(everything).toContain('Transit key');
  });
});

describe('the name of a Transit key', () => {
  it.each([
    ['acme', 'acme'],
    ['a.b-c', 'a.b-c'],
    ['pay@acme', 'pay_40acme'],
    ['a_b', 'a_5fb'],
    ['~x', '_7ex'],
    ['-a.', '_2da_2e'],
  ])('of login %s is %s', (login, expected) => {
    expect(transitNameOf(login)).toBe(expected);
  });
});
