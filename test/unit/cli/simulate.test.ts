import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { loadSimulatorKeys, simulate } from '../../../src/cli/simulate.ts';
import { reveal } from '../../../src/secret.ts';
import { runCommandHere } from '../../support/cli.ts';
import { harness } from '../../support/harness.ts';
import { balanceDraft, controlKey, post, statusDraft, withOAuth } from '../../support/simulator.ts';
import { publicKeyOf, vectorPath } from '../../support/vectors.ts';

let folder = '';
const starts = harness();
beforeEach(() => {
  folder = starts.folder().path;
});

function addLogin(environment: string, login: string): string {
  const home = join(folder, environment, login);
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'control_key'), `${controlKey}\n`);
  cpSync(vectorPath('keys/rsa-2048-pkcs8.pem'), join(home, 'private_key.pem'));
  return home;
}

const run = (...argv: string[]) => runCommandHere(simulate, ...argv);

describe('the keys of the gateway', () => {
  it('are the control keys and the public keys of the key directory', async () => {
    addLogin('sandbox', 'acme');
    const keys = (await loadSimulatorKeys(folder)).get('acme');
    expect(keys?.controlKeys.map(reveal)).toEqual([controlKey]);
    expect(keys?.publicKeys.map((key) => key.equals(publicKeyOf('rsa-2048-public.pem')))).toEqual([true]);
    expect(keys?.publicKeys[0]?.type).toBe('public');
  });

  it('of a login under two environments are all accepted', async () => {
    addLogin('sandbox', 'acme');
    writeFileSync(join(addLogin('production', 'acme'), 'control_key'), 'other');
    const keys = (await loadSimulatorKeys(folder)).get('acme');
    expect(keys?.controlKeys.map(reveal).sort()).toEqual([controlKey, 'other'].sort());
  });

  it('that are unusable are an error that names the login but shows nothing of the key', async () => {
    writeFileSync(join(addLogin('sandbox', 'acme'), 'private_key.pem'), 'canary');
    await expect(loadSimulatorKeys(folder)).rejects.toThrow(
      'The keys of sandbox/acme cannot be used: the private key (file private_key.pem) is not a PEM private key',
    );
  });

  it('in a directory with an invalid login name are an error that names it', async () => {
    addLogin('sandbox', 'lost+found');
    await expect(loadSimulatorKeys(folder)).rejects.toThrow(
      'The keys of sandbox/lost+found cannot be used: not a login',
    );
  });

  it('exclude files and hidden directories', async () => {
    addLogin('sandbox', 'acme');
    addLogin('..2026_01_15', 'ghost');
    writeFileSync(join(folder, 'README'), '');
    expect([...(await loadSimulatorKeys(folder)).keys()]).toEqual(['acme']);
  });
});

describe('countersign simulate', () => {
  it.each([
    ['without keys', [], '--keys DIR is required'],
    ['with an unknown option', ['--key', 'x'], 'unknown option --key; did you mean "--keys"?'],
    ['with an invalid port', ['--keys', '.', '--admin-port', 'x'], '--admin-port must be a port from 0 to'],
    ['with a missing key directory', ['--keys', '/none'], 'does not exist. Check the path.'],
  ])('%s is a usage error', async (_, argv, message) => {
    const { code, err } = await run(...argv);
    expect(code).toBe(2);
    expect(err).toContain(message);
  });

  it('with an invalid scenario lists its problems with their lines', async () => {
    const file = join(folder, 'scenario.yaml');
    writeFileSync(file, 'logins:\n  acme: {}\nfaults:\n  - fault: explode\n  - { fault: reset, delay: 3 }\n');
    const { code, err } = await run('--keys', folder, '--scenario', file);
    expect(code).toBe(2);
    expect(err.split('\n')).toEqual([
      'countersign simulate: invalid scenario',
      `${file}:4: faults[0].fault: must be status-403 or status-429 or status-500 or status-502 or status-503 or reset`,
      `${file}:5: faults[1].delay: is not a known key`,
      '2 problems',
      'See: countersign simulate --help',
    ]);
  });

  it('fails on an unavailable address', async () => {
    const { code, err } = await run('--keys', folder, '--host', '192.0.2.1', '--port', '0');
    expect(code).toBe(1);
    expect(err).toContain('Login acme has no key in');
    expect(err).toContain('is not an address of this machine');
  });

  it('serves with an admin API until a signal, and logs which check failed', async () => {
    addLogin('sandbox', 'acme');
    addLogin('sandbox', 'beta');
    const { child, line } = start(
      '--keys',
      folder,
      '--port',
      '0',
      '--admin-port',
      '0',
      '--admin-host',
      '127.0.0.2',
    );
    const greeting = await line();
    expect(greeting).toMatch(/^Gateway simulator: http:\/\/127\.0\.0\.1:\d+\/gw$/);
    const url = greeting.slice(greeting.indexOf('http'), -'/gw'.length);
    const adminGreeting = await line();
    expect(adminGreeting).toMatch(/^Admin API: http:\/\/127\.0\.0\.2:\d+$/);
    const journal = await fetch(`${adminGreeting.slice(adminGreeting.indexOf('http'))}/journal`);
    expect(await journal.json()).toEqual({ total: 0, entries: [] });
    const now = String(Math.floor(Date.now() / 1000));
    const right = [balanceDraft(), statusDraft([['client_orderid', 'invoice-1']])];
    for (const draft of right) {
      expect((await post(url, withOAuth(draft, 'oauth_timestamp', now))).status).toBe(200);
    }
    expect((await post(url, balanceDraft())).status).toBe(403);
    expect(await line()).toMatch(/^\d{4}-\S+Z manager-balance 403 timestamp-outside-window$/);
    const code = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    expect(await code).toBe(0);
  });
});

/** The command in a separate process, since it runs until a signal. */
function start(...argv: string[]): { child: ChildProcess; line: () => Promise<string> } {
  const script = `
    import { simulate } from ${JSON.stringify(fileURLToPath(new URL('../../../src/cli/simulate.ts', import.meta.url)))};
    process.exitCode = await simulate(process.argv.slice(1), { out: console.log, err: console.error });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, '--', ...argv]);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, line: async () => String((await lines.next()).value) };
}
