import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { root } from '../support/sources.ts';

/** The test files that jest selects for an npm script. */
async function selectedBy(...args: readonly string[]): Promise<string[]> {
  const argv = ['run', '--silent', ...args, '--listTests', '--json'];
  const { stdout } = await promisify(execFile)('npm', argv, { cwd: root });
  const files: string[] = JSON.parse(stdout);
  return files.map((file) => relative(root, file));
}

describe('npm test, npm run test:slow and npm run test:long', () => {
  it('together run every test file once', async () => {
    const scripts = ['test', 'test:slow', 'test:long'];
    const runs = await Promise.all(scripts.map((name) => selectedBy(name, '--')));
    const files = globSync('{deploy,scripts,src,test}/**/*.{test,spec}.{ts,mts,js,mjs,cjs}', { cwd: root });
    expect(runs.flat().sort()).toEqual(files.sort());
    for (const run of runs) expect(run).not.toEqual([]);
  }, 60_000);

  it('are all run by .ci/run', () => {
    const script = readFileSync(join(root, '.ci/run'), 'utf8');
    expect([...script.matchAll(/^run_tests (\S+)$/gm)].map(([, name]) => name)).toEqual([
      'test',
      'test:slow',
      'test:long',
    ]);
  });
});
