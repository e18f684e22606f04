import { spawnSync } from 'node:child_process';
import { expect, it } from '@jest/globals';
import { auditIn, trailLines } from '../support/audit.ts';
import { harness } from '../support/harness.ts';

const starts = harness();
/** CPU time, since other tests may run at the same time. In microseconds. */
const reportCpu = `data:text/javascript,${encodeURIComponent(
  `process.on('exit', () => {
    const { user, system } = process.cpuUsage();
    process.stderr.write('CPU: ' + (user + system) + '\\n');
  })`,
)}`;

it('200,000 records are verified within 6 s of CPU time, in memory that does not grow with them', async () => {
  const folder = starts.folder();
  const { keyFile } = auditIn(folder);
  const file = folder.file('trail.jsonl', trailLines(100_000).join(''));
  const args = ['audit', 'verify', file, '--key-file', keyFile];
  // Less than the size of the file.
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--max-old-space-size=48', '--import', reportCpu, 'src/main.ts', ...args],
    { encoding: 'utf8' },
  );
  expect([status, stderr]).toEqual([0, expect.stringMatching(/^CPU: \d+\n$/)]);
  expect(stdout).toMatch(/^verified: 200,001 records in 1 file$/m);
  const seconds = Number(stderr.slice('CPU: '.length)) / 1_000_000;
  console.info(`verified 200,000 records in ${seconds.toFixed(1)} s of CPU time`);
  expect(seconds).toBeLessThan(6);
}, 60_000);
