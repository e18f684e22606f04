import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { compileCache } from '../support/compile-cache.ts';
import { freePorts } from '../support/demo.ts';
import { Folder } from '../support/folder.ts';
import { root } from '../support/sources.ts';
import { until } from '../support/until.ts';

let folder: Folder;

beforeEach(() => {
  folder = new Folder();
});
afterEach(() => folder.remove());

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

it('an npm that was killed before the process could look for it leaves none behind', async () => {
  const dead = spawn('true');
  await once(dead, 'exit');
  const require = join(root, 'scripts/end-with-npm.cjs');
  const main = 'setTimeout(() => {}, 60_000)';
  const child = spawn(process.execPath, ['--require', require, '--eval', main], {
    env: { NPM_PID: String(dead.pid) },
  });
  expect(await once(child, 'exit')).toEqual([null, 'SIGTERM']);
});

it.each([
  ['SIGTERM', ['start', '--']],
  ['SIGKILL', ['run', 'countersign', '--', 'demo']],
] as const)('%s of npm %j leaves neither a process nor its keys behind', async (signal, script) => {
  const readyFile = join(folder.path, 'ready.json');
  const npm = spawn('npm', ['--silent', ...script, ...freePorts, '--ready-file', readyFile], {
    cwd: root,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder.path, TMPDIR: folder.path, ...compileCache },
    stdio: 'ignore',
  });
  const ended = once(npm, 'exit');
  await until(() => existsSync(readyFile) || npm.exitCode !== null, 'the demo is ready', 30);
  const { pid, keyDirectory }: { pid: number; keyDirectory: string } = JSON.parse(
    readFileSync(readyFile, 'utf8'),
  );
  expect(existsSync(keyDirectory)).toBe(true);
  npm.kill(signal);
  await until(() => !isAlive(pid), 'the demo has ended');
  // Until then it may write its log into the folder.
  await ended;
  expect(readdirSync(folder.path).filter((name) => /countersign|ready/.test(name))).toEqual([]);
});
