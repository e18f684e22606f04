import { spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';

describe('after an uncaught exception the process exits with code 1', () => {
  /** Runs a process with a guard, in which `abort` is the given code and an error is thrown. */
  function run(abort: string): { status: number | null; lines: string[]; milliseconds: number } {
    const module = new URL('../../../src/service/shutdown.ts', import.meta.url).href;
    const code = `
      import { installCrashHandlers } from '${module}';
      const log = { message() {}, crash: (origin) => console.log('crash', origin) };
      const handlers = installCrashHandlers(log, async () => console.log('flush'));
      handlers.beforeExit(async () => { console.log('abort'); ${abort} });
      let thrownAt;
      process.on('exit', () => console.log(performance.now() - thrownAt));
      // Keeps the process from ending by itself.
      setInterval(() => {}, 1000);
      setTimeout(() => { thrownAt = performance.now(); throw new Error('first'); });`;
    const args = ['--input-type=module', '--eval', code];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 15_000 });
    const lines = stdout.trimEnd().split('\n');
    return { status, milliseconds: Number(lines.pop()), lines };
  }

  it('when further errors come during the abort, which runs once', () => {
    const abort = `
      setTimeout(() => { throw new Error('second'); }, 10);
      await new Promise((resolve) => setTimeout(resolve, 200));`;
    const { status, lines } = run(abort);
    expect(status).toBe(1);
    expect(lines).toEqual(['crash uncaughtException', 'abort', 'crash uncaughtException', 'flush']);
  });

  it('within two seconds when the abort never resolves', () => {
    const { status, lines, milliseconds } = run('await new Promise(() => {});');
    expect(status).toBe(1);
    expect(lines).toEqual(['crash uncaughtException', 'abort']);
    expect(milliseconds).toBeLessThan(8_000);
  });
});
