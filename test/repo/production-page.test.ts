import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { blocksOf } from '../support/doc-examples.ts';
import { root } from '../support/sources.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const page = read('docs/production.md');

it('the way to production has ten steps', () => {
  expect([...page.matchAll(/^## (\d+)\./gm)].map(([, number]) => Number(number))).toEqual(
    Array.from({ length: 10 }, (_, index) => index + 1),
  );
});

it('the unit makes the audit folder of the example, which has to exist at the start', () => {
  const [, folder = ''] = /directory: ([^,]+),/.exec(page) ?? [];
  const [, made = ''] = /^StateDirectory=(.*)$/m.exec(read('deploy/systemd/countersign.service')) ?? [];
  expect(made.split(' ').map((name) => `/var/lib/${name}`)).toContain(folder);
});

/** What runs the commands of these: vault-setup, keys-command-page, helm-chart, release. */
const elsewhere = [
  'deploy/vault/README.md',
  'helm/countersign/README.md',
  'deploy/systemd/countersign.service',
];

it('a command that its own sessions do not run stands on a page whose commands are run', () => {
  const texts = elsewhere.map(read);
  const commands = blocksOf(page, 'sh').flatMap(({ text }) => text.trim().split('\n'));
  expect(commands.length).toBeGreaterThan(5);
  expect(commands.filter((command) => !texts.some((text) => text.includes(command)))).toEqual([]);
});
