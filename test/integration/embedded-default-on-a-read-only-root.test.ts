import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { createKeyDirectory } from '../../src/cli/demo/keys.ts';
import { compileCache } from '../support/compile-cache.ts';
import { harness } from '../support/harness.ts';
import { acquire } from '../support/port-lock.ts';
import { itWhere } from '../support/requires.ts';

/** Where not even root can create a folder. */
const readOnly = '/proc/self';
const sharedMemory = '/dev/shm';
const starts = harness();

const inMemory = itWhere(existsSync(sharedMemory), `there is no ${sharedMemory}`);
/** A test that may mount a file system that no other process sees. */
const withMounts = itWhere(
  existsSync(sharedMemory) && spawnSync('unshare', ['--mount', 'true']).status === 0,
  'this user may not mount a file system (unshare --mount)',
);
inMemory('serve without --config starts where the folder for temporary files is read-only', async () => {
  starts.atEnd(await acquire());
  const process = starts.spawn({ env: { TMPDIR: readOnly } });
  // Its ports are fixed, and may be in use on this machine.
  const running = await process.started();
  if (running) process.signal('SIGINT');
  expect(await process.ended).toBe(running ? 0 : 1);
  expect(process.stderr()).toMatch(running ? /^$/ : / is in use\. .*\n$/);
});

it('keys are written to the first writable folder', () => {
  const { path } = starts.folder();
  expect(createKeyDirectory([readOnly, path])).toMatch(new RegExp(`^${path}/countersign-keys-`));
});

withMounts('serve says in one sentence what to do where nothing can be written', () => {
  const readOnlyMemory = `mount -t tmpfs -o ro none ${sharedMemory} && exec "$0" src/main.ts serve`;
  const { status, stderr } = spawnSync('unshare', ['--mount', 'sh', '-c', readOnlyMemory, process.execPath], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: readOnly, ...compileCache },
  });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: `countersign serve: ${nowhere('/proc/self (ENOENT) or /dev/shm (EROFS)')}\n`,
  });
});

it('if no folder is writable, the error names each one and why', () => {
  const missing = starts.folder().at('missing');
  expect(() => createKeyDirectory([readOnly, missing])).toThrow(
    nowhere(`/proc/self (ENOENT) or ${missing} (ENOENT)`),
  );
});

const nowhere = (folders: string): string =>
  `Without --config, Countersign writes temporary keys, but it cannot write to ${folders}. ` +
  'Use --config FILE, or set TMPDIR to a writable directory';
