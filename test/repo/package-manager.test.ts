import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { root } from '../support/sources.ts';

const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
);
const folder = mkdtempSync(join(tmpdir(), 'countersign-manager-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** What the first script of an installation does there. */
function install(script: string, cwd: string, agent: string) {
  const { status, stderr } = spawnSync('sh', ['-c', scripts[script] ?? 'false'], {
    cwd,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', npm_config_user_agent: agent },
  });
  return { status, stderr };
}

it.each([
  ['preinstall', 'yarn/1.22.22 npm/? node/v26.10.0 linux x64', 'yarn'],
  // pnpm runs preinstall only after it has resolved all packages.
  ['pnpm:devPreinstall', 'pnpm/9.8.0 npm/? node/v26.10.0 linux x64', 'pnpm'],
])('%s of a checkout rejects %s in one sentence', (script, agent, name) => {
  expect(install(script, root, agent)).toEqual({
    status: 1,
    stderr: expect.stringMatching(
      new RegExp(`^Countersign is installed with npm, .* not with ${name}: run "npm ci"\\.\\n$`),
    ),
  });
});

it('preinstall of a checkout accepts npm', () => {
  expect(install('preinstall', root, 'npm/11.19.1 node/v26.10.0 linux x64')).toEqual({
    status: 0,
    stderr: '',
  });
});

it('preinstall of the published package accepts every package manager', () => {
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  expect(install('preinstall', folder, 'yarn/1.22.22')).toEqual({ status: 0, stderr: '' });
});
