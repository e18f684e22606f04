import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { audit as auditCommand } from '../../src/cli/audit-verify.ts';
import { auditFilesIn, auditIn, recordsIn, recordsOf } from '../support/audit.ts';
import { runCommandHere } from '../support/cli.ts';
import { type ConfigInput, configFor } from '../support/config.ts';
import type { Folder } from '../support/folder.ts';
import { paths, transferForm, verdict } from '../support/forwarding.ts';
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

describe('a full disk', () => {
  itWith('prlimit')('rejects requests if records are required, until there is room again', async () => {
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
  });

  itWith('prlimit')(
    'stops no request if records are not required, and none is lost that fits the buffer',
    async () => {
      const process = await start();
      await until(() => kinds()[0]?.length === 1);
      limitFileSize(process, readFileSync(newest()).length + 1_000);
      for (let count = 0; count < 20; count += 1) expect((await process.transfer()).status).toBe(200);
      await until(async () => (await process.metric('audit_up')) === 0);
      expect(await process.readiness()).toBe(200);
      limitFileSize(process, 'unlimited');
      await until(async () => (await process.metric('audit_up')) === 1);
      await process.transfer();
      await process.stop();
      expect(
        kinds()
          .flat()
          .filter((kind) => kind === 'result'),
      ).toHaveLength(21);
      expect(process.logLines('audit records lost')).toEqual([]);
      expect((await verify()).out).toMatch(/^verified: 44 records in 1 file$/m);
    },
  );

  itWith('prlimit')('neither keeps the process from stopping nor from saying what is lost', async () => {
    const process = await start();
    await process.transfer();
    await until(() => kinds()[0]?.length === 3);
    limitFileSize(process, readFileSync(newest()).length + 100);
    await process.transfer();
    await until(async () => (await process.metric('audit_up')) === 0);
    expect(await process.stop()).toBe(0);
    // The intent is written in part.
    expect(process.logLines('audit records lost')).toEqual([expect.objectContaining({ records: 3 })]);
    const after = await startHere();
    await after.stop();
    const { code, out } = await verify();
    expect([code, out]).toEqual([0, expect.stringMatching(/note: .*-0001\.jsonl:4 is incomplete/)]);
  });
});

describe('a process that is killed', () => {
  it('leaves every record of a request that it sent, and the next one follows it', async () => {
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

  it.each([
    ['within a record', (file: string) => truncateSync(file, readFileSync(file).length - 40)],
    [
      'by a power failure, which may leave zeros',
      (file: string) => appendFileSync(file, Buffer.alloc(300_000)),
    ],
  ])('%s, is distinguished from tampering', async (_when, damage) => {
    const first = await startHere();
    await first.transfer();
    await first.stop();
    damage(newest());
    const second = await startHere();
    await second.stop();
    const { code, out } = await verify();
    expect([code, out]).toEqual([0, expect.stringMatching(/^note: +.*-0001\.jsonl:\d is incomplete/m)]);
  });
});

it('the heads in the log show that newest records are missing, and stand for files that are archived', async () => {
  const heads: string[] = [];
  for (let nth = 0; nth < 3; nth += 1) {
    const proxy = await startHere();
    await proxy.transfer();
    await proxy.stop();
    const [{ sequence, mac } = {}] = proxy.logLines('audit head');
    heads.push(`${String(sequence)}:${String(mac)}`);
  }
  expect(await verify(...heads.flatMap((head) => ['--head', head]))).toMatchObject({ code: 0, err: '' });
  const [first = '', second = '', third = ''] = heads;
  rmSync(files()[0] ?? '');
  const gone = 'The start follows record 4:';
  expect(await verify()).toMatchObject({ code: 1, err: expect.stringContaining(gone) });
  expect(await verify('--after', first)).toMatchObject({ code: 0, err: '' });
  rmSync(files()[0] ?? '');
  expect(await verify('--after', first)).toMatchObject({ code: 1 });
  expect(await verify('--after', second)).toMatchObject({ code: 0, err: '' });
  writeFileSync(newest(), readFileSync(newest(), 'utf8').replace(/.*\n$/, ''));
  const cut = await verify('--after', second, '--head', third);
  expect(cut).toMatchObject({ code: 1, err: expect.stringMatching(/No file has record 4:.* of --head/) });
});

it('a second process with the same folder has a file of its own, and the first one is not disturbed', async () => {
  const first = await startHere();
  await first.transfer();
  const second = await start();
  await second.transfer();
  expect((await first.transfer()).status).toBe(200);
  await second.stop();
  await first.stop();
  expect(kinds().map((all) => all.length)).toEqual([6, 4]);
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

it('each applied configuration has its digest in the trail, by start or reload, and audit verify says it', async () => {
  const process = await start();
  const digestOf = (): string =>
    createHash('sha256')
      .update(readFileSync(join(process.folder, 'config.yaml')))
      .digest('hex');
  const first = digestOf();
  await until(() => kinds().flat().length === 1);
  expect((await verify()).out).toMatch(new RegExp(`^config: {3}${first} by start at 2`, 'm'));
  process.rewrite(configFor(gatewayUrl, { audit, callers: [] }));
  const second = digestOf();
  process.signal('SIGHUP');
  await until(() => process.logLines('configuration reloaded').length > 0);
  await process.stop();
  expect(second).not.toBe(first);
  expect(recordsIn(audit.directory).map(({ audit: kind, config }) => [kind, config])).toEqual([
    ['start', first],
    ['start', first],
    ['config', second],
    ['stop', undefined],
  ]);
  const { code, out } = await verify();
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(new RegExp(`^config: {3}2 applied, the last ${second} by reload at 2`, 'm')),
  ]);
});

it('SIGHUP begins the next file, though the configuration is invalid by now', async () => {
  const process = await start();
  await process.transfer();
  process.rewrite('nonsense: true');
  process.signal('SIGHUP');
  await until(() => process.logLines('configuration reload failed; keeping the current one').length > 0);
  await process.transfer();
  await process.stop();
  expect(kinds()).toEqual([
    ['start', 'intent', 'result'],
    ['start', 'intent', 'result', 'stop'],
  ]);
  expect(await verify()).toMatchObject({ code: 0, err: '' });
  rmSync(files()[0] ?? '');
  expect((await verify()).err).toMatch(/-0002\.jsonl:1: The trail begins with record 4/);
});

it('a changed key seals the records after SIGHUP; both keys verify the trail', async () => {
  const process = await start();
  await process.transfer();
  const old = folder.file('old.key', readFileSync(audit.keyFile, 'utf8'));
  writeFileSync(audit.keyFile, 'too short');
  process.signal('SIGHUP');
  await until(() => process.logText().includes('audit key cannot be read again; keeping the current one'));
  await process.transfer();
  writeFileSync(audit.keyFile, 'f00d'.repeat(16));
  process.signal('SIGHUP');
  await until(() => kinds().length === 2);
  await process.transfer();
  await process.stop();
  const keys = recordsIn(audit.directory).map(({ key }) => key);
  expect(new Set(keys).size).toBe(2);
  expect(await verify('--key-file', old)).toMatchObject({ code: 0, err: '' });
  expect((await verify()).err).toMatch(/-0001\.jsonl:1: .*which no --key-file has/);
});

describe('on standard output', () => {
  const onOutput = (): Promise<CountersignProcess> =>
    starts.process({ gateway: gatewayUrl, config: { audit: { keyFile: audit.keyFile, required: true } } });
  const verifyOutput = (output: string, ...args: string[]) =>
    runCommandHere(auditCommand, 'verify', output, '--key-file', audit.keyFile, ...args);

  it('records are lines between those of the log', async () => {
    const process = await onOutput();
    const response = await process.post(paths.transfer, transferForm);
    expect(response.status).toBe(200);
    expect(await process.stop()).toBe(0);
    const output = folder.file('output', process.stdout());
    expect(await verifyOutput(output, '--skip-log')).toMatchObject({ code: 0, err: '' });
    const lines = process.stdout().trimEnd().split('\n');
    expect(new Set(lines.map((line) => line.slice(0, 10)))).toEqual(new Set(['{"level":"', '{"audit":"']));
    expect(kindsOf(process.stdout())).toEqual(['start', 'intent', 'result', 'stop']);
    expect((await verifyOutput(output)).err).toMatch(/The line is not a record/);
  });

  it('without a reader, requests are rejected if records are required, until it is read again', async () => {
    const process = await onOutput();
    process.child.stdout?.pause();
    const statuses: number[] = [];
    await until(
      async () => {
        const batch = await Promise.all(Array.from({ length: 50 }, () => process.balance()));
        statuses.push(...batch.map(({ status }) => status));
        return statuses.includes(503);
      },
      'the pipe is full',
      30,
    );
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    process.child.stdout?.resume();
    await until(async () => (await process.balance()).status === 200);
    await process.stop();
    const output = folder.file('output', process.stdout());
    expect(await verifyOutput(output, '--skip-log')).toMatchObject({ code: 0, err: '' });
  }, 60_000);
});
