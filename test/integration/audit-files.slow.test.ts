import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, expect, it } from '@jest/globals';
import { audit as auditCommand } from '../../src/cli/audit-verify.ts';
import { auditFilesIn, auditIn, recordsIn, recordsOf } from '../support/audit.ts';
import { runCommandHere } from '../support/cli.ts';
import { type ConfigInput, configFor } from '../support/config.ts';
import type { Folder } from '../support/folder.ts';
import { verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { CountersignProcess } from '../support/process.ts';
import { itWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();

let folder: Folder;
let audit: ReturnType<typeof auditIn>;
let gatewayUrl: string;
beforeEach(async () => {
  folder = starts.folder();
  audit = auditIn(folder);
  gatewayUrl = (await starts.recordingGateway()).url;
});

type AuditFields = Partial<NonNullable<ConfigInput['audit']>>;

const start = (more: AuditFields = {}): Promise<CountersignProcess> =>
  starts.process({ gateway: gatewayUrl, config: { audit: { ...audit, ...more } } });

/** In this process, which starts faster. */
const startHere = (more: AuditFields = {}): Promise<TestProxy> =>
  starts.proxy({ gateway: gatewayUrl, config: { audit: { ...audit, ...more } } });

const verify = (...args: string[]) =>
  runCommandHere(auditCommand, 'verify', audit.directory, '--key-file', audit.keyFile, ...args);

const files = () => auditFilesIn(audit.directory);
const kindsOf = (text: string): unknown[] => recordsOf(text).map(({ audit: kind }) => kind);
const kinds = (): unknown[][] => files().map((file) => kindsOf(readFileSync(file, 'utf8')));
const newest = (): string => files().at(-1) ?? '';

/** Limits the size of files that a process may write; a write beyond it fails as on a full disk. */
function limitFileSize({ child }: CountersignProcess, bytes: number | 'unlimited'): void {
  const { status, stderr } = spawnSync('prlimit', [`--pid=${child.pid}`, `--fsize=${bytes}:`], {
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([0, '']);
}

itWith('prlimit')(
  'a full disk rejects requests if records are required, until there is room again',
  async () => {
    const process = await start({ required: true });
    expect((await process.transfer()).status).toBe(200);
    // Within the next record.
    limitFileSize(process, readFileSync(newest()).length + 100);
    const rejected = await process.transfer();
    expect(verdict(rejected)).toBe('503 audit-unavailable not-sent not-sent');
    expect(rejected.headers['retry-after']).toBe('1');
    const readyz = await fetch(`${process.adminUrl}/readyz`);
    expect([readyz.status, await readyz.json()]).toEqual([
      503,
      { ready: false, reasons: ['audit-unavailable'], warnings: [] },
    ]);
    expect(await process.metric('audit_up')).toBe(0);
    limitFileSize(process, 'unlimited');
    await until(async () => (await process.readiness()) === 200);
    expect((await process.transfer()).status).toBe(200);
    expect(await process.metric('audit_up')).toBe(1);
    expect(await process.stop()).toBe(0);
    expect(await verify()).toMatchObject({ code: 0, err: '' });
    expect(process.logLines('audit records cannot be written')).toEqual([
      expect.objectContaining({ level: 'error', cause: 'EFBIG' }),
    ]);
    expect(process.logLines('audit records are written again')).toHaveLength(1);
  },
);

it('a process that is killed leaves every record of a request that it sent, and the next one follows it', async () => {
  const first = await start({ required: true });
  await Promise.all(Array.from({ length: 20 }, () => first.transfer()));
  first.signal('SIGKILL');
  await first.ended;
  const before = recordsIn(audit.directory);
  expect(before.filter(({ audit: kind }) => kind === 'intent')).toHaveLength(20);
  const second = await startHere({ required: true });
  await second.transfer();
  await second.stop();
  const last = before.at(-1);
  expect(recordsIn(audit.directory)[before.length]).toMatchObject({
    audit: 'start',
    seq: 1,
    before: { sequence: last?.['seq'], mac: last?.['mac'] },
  });
  expect(await verify()).toMatchObject({ code: 0, err: '' });
});

it.each<[string, () => AuditFields, number, RegExp]>([
  ['a folder', () => ({ directory: folder.at('missing') }), 1, /missing does not exist\. Check the path/],
  ['no file', () => ({ directory: audit.keyFile }), 1, /audit\.key is not a directory\. Check the path/],
  [
    'a key of 32 bytes',
    () => ({ keyFile: folder.file('short', 'secret\n') }),
    2,
    /audit\.keyFile: names a file that has 6 bytes, and a key needs at least 32\. Create one: openssl rand -hex 32/,
  ],
])('the start needs %s', async (_what, wrong, code, message) => {
  const process = starts.spawn({ file: configFor(gatewayUrl, { audit: { ...audit, ...wrong() } }) });
  expect([await process.ended, process.stderr()]).toEqual([code, expect.stringMatching(message)]);
});

it('SIGHUP begins the next file, with another key if that changed, though the configuration is invalid by now', async () => {
  const process = await start();
  await process.transfer();
  process.rewrite('nonsense: true');
  process.signal('SIGHUP');
  await until(() => process.stdout().includes('configuration reload failed; keeping the current one'));
  await process.transfer();
  const old = folder.file('old.key', readFileSync(audit.keyFile, 'utf8'));
  writeFileSync(audit.keyFile, 'too short');
  process.signal('SIGHUP');
  await until(() => process.logText().includes('audit key cannot be read again; keeping the current one'));
  writeFileSync(audit.keyFile, 'f00d'.repeat(16));
  process.signal('SIGHUP');
  await until(() => kinds().length === 3);
  await process.transfer();
  await process.stop();
  expect(kinds()).toEqual([
    ['start', 'intent', 'result'],
    ['start', 'intent', 'result'],
    ['start', 'intent', 'result', 'stop'],
  ]);
  expect(await verify('--key-file', old)).toMatchObject({ code: 0, err: '' });
  expect((await verify()).err).toMatch(/-0001\.jsonl:1: .*which no --key-file has/);
});
