import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { chart, configText, template } from '../support/helm.ts';
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
