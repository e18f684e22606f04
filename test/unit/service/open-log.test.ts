import { type ChildProcess, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { expect, it } from '@jest/globals';

/** A process with a log on its standard output that runs this code. */
function run(code: string): ChildProcess {
  const module = new URL('../../../src/service/open-log.ts', import.meta.url).href;
  const script = `
    import { openLog } from '${module}';
    const { log, flush } = openLog('info');
    ${code}`;
  return spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function linesOf({ stdout }: ChildProcess): Promise<string[]> {
  if (stdout === null) throw new Error('no pipe');
  return (await text(stdout)).trimEnd().split('\n');
}

it('a process that exits at once writes its last log lines first', async () => {
  const lines = await linesOf(run(`log.message('info', 'last words'); process.exit(0);`));
  expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([{ msg: 'last words' }]);
});

it('a process that flushes its log waits a moment for a reader that is slow', async () => {
  // More than a pipe holds.
  const child = run(`
    for (let line = 0; line < 300; line += 1) log.message('info', 'x'.repeat(1_000));
    await flush();
    process.exit(0);`);
  expect(await linesOf(child)).toHaveLength(300);
});
