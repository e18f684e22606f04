import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { chart, configText, container, list, template } from '../support/helm.ts';
import { itWith } from '../support/requires.ts';

const folder = mkdtempSync(join(tmpdir(), 'countersign-examples-'));
afterAll(() => rmSync(folder, { recursive: true }));

function inReadme(file = 'my-values.yaml'): string {
  const blocks = blocksOf(readFileSync(join(chart, 'README.md'), 'utf8'), 'yaml');
  return blocks.find(({ info }) => info === file)?.text ?? '';
}

/** The comment of `config` in values.yaml. */
function inComment(): string {
  const text = readFileSync(join(chart, 'values.yaml'), 'utf8');
  const [, example = ''] = /^# The Countersign configuration.*:\n((?:# {3}.*\n)+)/m.exec(text) ?? [];
  return example.replace(/^# {3}/gm, '');
}

itWith('helm').each([
  ['readme.yaml', inReadme()],
  ['readme-sandbox.yaml', inReadme('my-sandbox-values.yaml')],
  ['comment.yaml', inComment()],
])('the chart and Countersign accept the example %s', (name, text) => {
  expect(text).toContain('tokenSha256');
  const file = join(folder, name);
  writeFileSync(file, text);
  const args = ['--values', file];
  expect(template(args)).toMatchObject({ status: 0, stderr: '' });
  const lookUp = (name: string) => (name === 'BILLING_TOKEN_SHA256' ? 'a1'.repeat(32) : undefined);
  const checked = validateConfig(configText(args), { lookUp, builtIn: builtInOperations });
  expect('problems' in checked ? checked.problems : []).toEqual([]);
});

it('the example of the sandbox has nothing of production', () => {
  expect(inReadme('my-sandbox-values.yaml')).not.toContain('production');
});

const main = resolve('src/main.ts');

/** Runs what the README says to do before an upgrade, with these values. */
function checkAsInReadme(values: string) {
  const blocks = blocksOf(readFileSync(join(chart, 'README.md'), 'utf8'), 'sh');
  const commands = blocks.find(({ text }) => text.includes('countersign check'))?.text ?? '';
  rmSync(join(folder, 'helm'), { force: true });
  symlinkSync(resolve('helm'), join(folder, 'helm'));
  writeFileSync(join(folder, 'my-values.yaml'), values);
  // A helm that was built from source does not know which Kubernetes it is for.
  const programs = `countersign() { "${process.execPath}" "${main}" "$@"; }\nhelm() { command helm "$@" --kube-version 1.34.0; }\n`;
  const { status, stdout } = spawnSync('sh', ['-c', programs + commands], { cwd: folder, encoding: 'utf8' });
  return { status, stdout };
}

itWith('helm')('the check before an upgrade finds what the chart does not, and so does the pod', () => {
  expect(checkAsInReadme(inReadme())).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('config.yaml: no problems'),
  });
  const wrong = inReadme().replace('environments: [production]', 'environments: [prodution]');
  const problem = 'callers[0].allow[0].environments[0]: unknown environment; did you mean "production"?';
  expect(checkAsInReadme(wrong)).toMatchObject({ status: 2, stdout: expect.stringContaining(problem) });
  const [command, , ...rest] = list(container(['--values', join(folder, 'my-values.yaml')]), 'args').map(
    String,
  );
  expect([command, rest]).toEqual(['serve', ['/etc/countersign/config/config.yaml']]);
  const pod = spawnSync(process.execPath, [main, 'serve', '--config', join(folder, 'config.yaml')], {
    env: { ...process.env, BILLING_TOKEN_SHA256: 'a1'.repeat(32) },
    encoding: 'utf8',
  });
  expect(pod).toMatchObject({ status: 2, stderr: expect.stringContaining(problem) });
});
