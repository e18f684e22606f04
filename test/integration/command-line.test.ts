import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { root } from '../support/sources.ts';

function run(...argv: string[]): Promise<{ code: unknown; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [join(root, 'src/main.ts'), ...argv], (error, out, err) =>
      resolve({ code: error?.code ?? 0, out, err }),
    );
  });
}

it('countersign --version prints the version of package.json', async () => {
  const { version }: { version: string } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect(await run('--version')).toEqual({ code: 0, out: `${version}\n`, err: '' });
});

it('countersign without a command lists the commands', async () => {
  const { code, out } = await run();
  expect(code).toBe(0);
  for (const name of ['serve', 'demo', 'simulate', 'check', 'explain', 'keys']) {
    expect(out).toMatch(new RegExp(`^  ${name} `, 'm'));
  }
});

it('countersign rejects an unknown command with exit code 2', async () => {
  const { code, out, err } = await run('__proto__');
  expect([code, out]).toEqual([2, '']);
  expect(err).toContain('Usage: countersign COMMAND');
});

it.each(['serve', 'demo', 'simulate', 'check', 'explain', 'keys'])(
  'countersign %s has a help',
  async (name) => {
    const { code, out } = await run(name, '--help');
    expect(code).toBe(0);
    expect(out).toContain(`Usage: countersign ${name}`);
  },
);
