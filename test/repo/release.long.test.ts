import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Folder } from '../support/folder.ts';
import { root } from '../support/sources.ts';

const folder = new Folder();
afterAll(() => folder.remove());

const run = (cwd: string, command: string, ...args: string[]): string =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

/** A clone of what is committed here: a release is made of a commit. */
const clone = folder.at('clone');
const release = (to: string): string => run(clone, process.execPath, 'scripts/release.ts', folder.at(to));
let sums: string;

beforeAll(() => {
  run(root, 'git', 'clone', '--quiet', root, clone);
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  writeFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
  sums = release('first');
}, 300_000);

it('a release is the package, the tarball, the chart, the SBOM, and their checksums', () => {
  expect(
    sums
      .trim()
      .split('\n')
      .map((line) => line.replace(/^[0-9a-f]{64} {2}|\d+\.\d+\.\d+/g, '')),
  ).toEqual(['countersign-.cdx.json', 'countersign-.tar.gz', 'countersign-.tgz', 'countersign-chart-.tgz']);
  expect(run(folder.at('first'), 'sha256sum', '--check', '--quiet', 'SHA256SUMS')).toBe('');
});

it('the same commit gives the same bytes', () => {
  expect(release('second')).toBe(sums);
}, 300_000);

it('the tarball runs without npm, with the command of its unit', () => {
  const installed = folder.at('opt');
  const [, name = ''] = /(countersign-[\d.]+\.tar\.gz)/.exec(sums) ?? [];
  run(root, 'mkdir', installed);
  run(root, 'tar', '-xzf', folder.at(`first/${name}`), '--strip-components=1', '-C', installed);
  const unit = readFileSync(join(installed, 'deploy/systemd/countersign.service'), 'utf8');
  const [, check = ''] = /^ExecStartPre=(.*)$/m.exec(unit) ?? [];
  expect(check).toMatch(/^\/opt\/countersign\/bin\/countersign check /);
  const config = folder.file('config.yaml', readFileSync(join(root, 'config/vault.yaml'), 'utf8'));
  const [, ...args] = check.replace('/etc/countersign/config.yaml', config).split(' ');
  const env = { BILLING_TOKEN_SHA256: '0'.repeat(64), PATH: `${dirname(process.execPath)}:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync(
    join(installed, 'bin/countersign'),
    [...args, '--no-file-checks'],
    { env, encoding: 'utf8' },
  );
  expect({ status, stdout, stderr }).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('production'),
  });
});

it('changes that are not committed are no release', () => {
  writeFileSync(join(clone, 'new-file'), '');
  const { status, stderr } = spawnSync(process.execPath, ['scripts/release.ts'], {
    cwd: clone,
    encoding: 'utf8',
  });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: expect.stringMatching(/^There are changes .* Commit or stash them/),
  });
});
