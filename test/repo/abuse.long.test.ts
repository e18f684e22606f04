import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { wayNames } from '../abuse/ways.ts';
import { expectUsageError } from '../support/usage-error.ts';

const run = promisify(execFile);
const main = fileURLToPath(new URL('../abuse/main.ts', import.meta.url));

/** Three at once: they mostly wait. Short, and with generous limits, since other tests take the cores too. */
const parts = [0, 1, 2].map((part) => wayNames.filter((_, index) => index % 3 === part));

describe('npm run abuse', () => {
  it('attacks in every way, reports, and finds that generous limits hold', async () => {
    const outputs = await Promise.all(
      parts.map(async (names) => {
        const only = names.flatMap((name) => ['--only', name]);
        const options = ['--seconds', '1', '--slack', '20000', ...only];
        const { stdout } = await run(process.execPath, [main, ...options]).catch((error: unknown) => {
          throw new Error(`a limit was broken:\n${String(Object(error).stdout)}${String(error)}`);
        });
        expect(stdout).toContain(`held: ${names.length} of ${names.length} ways`);
        return stdout;
      }),
    );
    for (const way of wayNames) {
      const report =
        outputs
          .join('')
          .split('\n## ')
          .find((part) => part.startsWith(`${way}: `)) ?? '';
      expect(report).toMatch(/\| p99, ms \| [\d.]+ \| [\d.]+ \| [\d.]+ \| 250 \|/);
      expect(report).toMatch(/\| memory, MiB \| \d{2,3} \| \d{2,3} \| \d{2,3} \| 384 \|/);
      expect(report).toMatch(/attacker saw: [1-9]/);
    }
  }, 300_000);

  it('says which options are wrong', () => {
    expectUsageError('abuse', ['--only', 'nothing'], '--only must be one of handshakes, ');
    expectUsageError('abuse', ['--seconds', '0'], '--seconds must be a whole number from 1');
  });
});
