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

/** What the first script of an installation does there: its exit status, and what it prints. */
function install(script: string, cwd: string, agent: string): string {
  const env = { PATH: process.env['PATH'] ?? '', npm_config_user_agent: agent };
  const { status, stderr } = spawnSync('sh', ['-c', scripts[script] ?? 'false'], {
    cwd,
    encoding: 'utf8',
    env,
  });
  return `${status} ${stderr}`;
}

it('a checkout is installed with npm alone, and others are told so in one sentence', () => {
  expect(install('preinstall', root, 'npm/11.19.1 node/v26.10.0 linux x64')).toBe('0 ');
  const sentence = /^1 Countersign is installed with npm, .* not with (?:yarn|pnpm): run "npm ci"\.\n$/;
  expect(install('preinstall', root, 'yarn/1.22.22 npm/? node/v26.10.0 linux x64')).toMatch(sentence);
  // pnpm runs preinstall only after it has resolved all packages.
  expect(install('pnpm:devPreinstall', root, 'pnpm/9.8.0 npm/? node/v26.10.0 linux x64')).toMatch(sentence);
});

it('the published package is installed with every package manager', () => {
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  expect(install('preinstall', folder, 'yarn/1.22.22')).toBe('0 ');
});
