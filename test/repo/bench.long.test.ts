import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from '@jest/globals';
import { vectorPath } from '../support/vectors.ts';

const main = vectorPath('../bench/main.ts');

/** Rows of Markdown tables, by their first cell. */
function rowsOf(markdown: string): Map<string, string[]> {
  const rows = markdown.split('\n').filter((line) => line.startsWith('| '));
  return new Map(
    rows.map((line) => {
      const [first = '', ...cells] = line.split('|').slice(1, -1);
      return [first.trim(), cells.map((cell) => cell.trim())];
    }),
  );
}

describe('the benchmark', () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-bench-test-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('measures every way in one run, and gives ratios that are numbers', async () => {
    const json = join(folder, 'findings.json');
    const args = [main, '--requests', '50', '--rounds', '1', '--connections', '4', '--json', json];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    const { rounds } = JSON.parse(readFileSync(json, 'utf8'));

    const rows = rowsOf(stdout);
    const ways = [
      '(a) straight to the upstream',
      '(b) bare http-proxy-middleware',
      '(c) Countersign, HMAC-SHA1',
      '(d) Countersign, RSA-SHA256, 2048 bits',
      '(d) Countersign, RSA-SHA256, 4096 bits',
    ];
    for (const way of ways) {
      const ratios = rows.get(way)?.filter((_, index) => index % 2 === 1);
      expect(ratios).toEqual(Array(4).fill(expect.stringMatching(/^\d+\.\d\d$/)));
    }
    expect(rows.get('RSA-SHA256, 4096 bits')?.at(-1)).toMatch(/^\d\.\d\d$/);
    expect([...rows.values()].filter((cells) => /^(met|missed)$/.test(cells.at(-1) ?? ''))).toHaveLength(2);
    expect(rounds).toHaveLength(1);
  }, 60_000);

  it('refuses options that it does not know', async () => {
    const failed = promisify(execFile)(process.execPath, [main, '--request', '50']);
    await expect(failed).rejects.toMatchObject({ stderr: expect.stringContaining("'--request'") });
  });
});
