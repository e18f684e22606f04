import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { audit as auditCommand } from '../../src/cli/audit-verify.ts';
import { auditIn, recordsIn } from '../support/audit.ts';
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
  runCommandHere(auditCommand, 'verify', '--key-file', audit.keyFile, ...args);

const kinds = (file = audit.file): unknown[] => recordsIn(file).map(({ audit: kind }) => kind);

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
    limitFileSize(process, readFileSync(audit.file).length + 100);
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
    expect(await verify(audit.file)).toMatchObject({ code: 0, err: '' });
    expect(process.logLines('audit records cannot be written')).toEqual([
      expect.objectContaining({ level: 'error', cause: 'EFBIG' }),
    ]);
    expect(process.logLines('audit records are written again')).toHaveLength(1);
  });

  itWith('prlimit')(
    'stops no request if records are not required, and none is lost that fits the buffer',
    async () => {
      const process = await start();
      limitFileSize(process, readFileSync(audit.file).length + 1_000);
      for (let count = 0; count < 20; count += 1) expect((await process.transfer()).status).toBe(200);
      await until(async () => (await process.metric('audit_up')) === 0);
      expect(await process.readiness()).toBe(200);
      limitFileSize(process, 'unlimited');
      await until(async () => (await process.metric('audit_up')) === 1);
      await process.transfer();
      await process.stop();
      expect(kinds().filter((kind) => kind === 'result')).toHaveLength(21);
      expect(process.logLines('audit records lost')).toEqual([]);
      expect((await verify(audit.file)).out).toMatch(/^verified: 44 records in 1 file, 1 to 44$/m);
    },
  );

  itWith('prlimit')('neither keeps the process from stopping nor from saying what is lost', async () => {
    const process = await start();
    await process.transfer();
    await until(() => kinds().length === 3);
    limitFileSize(process, readFileSync(audit.file).length + 100);
    await process.transfer();
    await until(async () => (await process.metric('audit_up')) === 0);
    expect(await process.stop()).toBe(0);
    expect(process.logLines('audit records lost')).toEqual([expect.objectContaining({ records: 2 })]);
    const after = await startHere();
    await after.stop();
    const { code, out } = await verify(audit.file);
    expect([code, out]).toEqual([0, expect.stringMatching(/note: +100 bytes were cut off by a crash/)]);
  });
});

describe('a process that is killed', () => {
  it('leaves every record of a request that it sent, and the next one continues the trail', async () => {
    const first = await start({ required: true });
    await Promise.all(Array.from({ length: 20 }, () => first.transfer()));
    first.signal('SIGKILL');
    await first.ended;
    const before = recordsIn(audit.file);
    expect(before.filter(({ audit: kind }) => kind === 'intent')).toHaveLength(20);
    const second = await startHere({ required: true });
    await second.transfer();
    await second.stop();
    const [start_] = recordsIn(audit.file).slice(before.length);
    expect(start_).toMatchObject({ audit: 'start', seq: before.length + 1, prev: before.at(-1)?.['mac'] });
    expect(await verify(audit.file)).toMatchObject({ code: 0, err: '' });
  });

  it('within a record is distinguished from tampering', async () => {
    const first = await startHere();
    await first.transfer();
    await first.stop();
    const { length } = readFileSync(audit.file);
    truncateSync(audit.file, length - 40);
    const second = await startHere();
    await second.stop();
    const { code, out } = await verify(audit.file);
    expect([code, out]).toEqual([0, expect.stringMatching(/^note: +\d+ bytes were cut off by a crash/m)]);
  });

  it('by a power failure may leave any number of zeros, which the chain then has the hash of', async () => {
    const first = await startHere();
    await first.transfer();
    await first.stop();
    const zeros = Buffer.alloc(300_000);
    appendFileSync(audit.file, zeros);
    const second = await startHere();
    await second.transfer();
    await second.stop();
    const { code, out } = await verify(audit.file);
    expect([code, out]).toEqual([0, expect.stringMatching(/^note: +300,000 bytes were cut off by a crash/m)]);
    const content = readFileSync(audit.file);
    content[content.indexOf(zeros.subarray(0, 100)) + 150_000] = 1;
    writeFileSync(audit.file, content);
    expect(await verify(audit.file)).toMatchObject({ code: 1, err: expect.stringMatching(/not a record/) });
  });

  it('is distinguished from much junk at the end, with which the trail continues nevertheless', async () => {
    const first = await startHere();
    await first.stop();
    appendFileSync(audit.file, `${'junk '.repeat(50_000)}\n`);
    const second = await startHere();
    await second.transfer();
    await second.stop();
    expect(recordsIn(audit.file).find(({ damaged }) => damaged !== undefined)).toMatchObject({
      audit: 'start',
      seq: 3,
      damaged: 250_001,
    });
    expect(await verify(audit.file)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/jsonl:3: The line/),
    });
  });

  it('is distinguished from records without a seal at the end, which the log, the next record and verify say', async () => {
    const first = await startHere();
    await first.transfer();
    await first.stop();
    const added = '{"audit":"intent","seq":5,"login":"mallory"}\n{"audit":"result","seq":6}\n';
    appendFileSync(audit.file, added);
    const second = await startHere();
    await second.transfer();
    await second.stop();
    expect(
      second.logLines(
        'the audit file ends with lines that are no records: verify the file, and keep a copy as evidence',
      ),
    ).toEqual([expect.objectContaining({ level: 'error', bytes: added.length })]);
    const found = recordsIn(audit.file).find(({ damaged }) => damaged !== undefined);
    expect(found).toMatchObject({ audit: 'start', seq: 5, damaged: added.length });
    expect(found).not.toHaveProperty('torn');
    const { code, err } = await verify(audit.file);
    expect([code, err]).toEqual([1, expect.stringMatching(/audit\.jsonl:5: The line is not a record/)]);
    const text = readFileSync(audit.file, 'utf8');
    writeFileSync(audit.file, text.replace(added, ''));
    expect((await verify(audit.file)).err).toMatch(/audit\.jsonl:5: Record 5 says that 72 bytes before it/);
  });

  it('is continued although its last record was changed, which the log and verify say', async () => {
    const first = await startHere();
    await first.transfer();
    await first.stop();
    const text = readFileSync(audit.file, 'utf8');
    writeFileSync(audit.file, text.replace(/"time":"(?!.*"time").{4}/s, '"time":"1999'));
    const second = await startHere();
    expect(
      second.logLines('the last audit record was altered: verify the file, and keep a copy as evidence'),
    ).toHaveLength(1);
    await second.stop();
    const { code, err } = await verify(audit.file);
    expect([code, err]).toEqual([1, expect.stringMatching(/audit\.jsonl:4: Record 4 was changed/)]);
  });
});

it('a second process with the same file does not start, and the first one is not disturbed', async () => {
  const first = await startHere();
  const second = starts.spawn({ file: configFor(gatewayUrl, { audit }) });
  expect(await second.ended).toBe(1);
  expect(second.stderr()).toMatch(/Countersign cannot start: Another process writes to .*audit\.jsonl/);
  expect((await first.transfer()).status).toBe(200);
  await first.stop();
  expect(await verify(audit.file)).toMatchObject({ code: 0 });
});

it('a trail whose directory does not exist is an error at the start', async () => {
  const section = { ...audit, file: folder.at('missing/audit.jsonl') };
  const process = starts.spawn({ file: configFor(gatewayUrl, { audit: section }) });
  expect(await process.ended).toBe(1);
  expect(process.stderr()).toMatch(/missing\/audit\.jsonl does not exist\. Check the path/);
});

it.each([
  [
    'has other content',
    () => folder.file('notes.txt', 'notes\n'),
    /notes\.txt has content that is not an audit trail\. Move it away/,
  ],
  ['is a device', () => '/dev/full', /\/dev\/full is not a regular file/],
])('a trail is an error at the start if it %s', async (_name, file, message) => {
  await expect(startHere({ file: file() })).rejects.toThrow(message);
});

it('a key that is too short is a problem of the configuration', async () => {
  const section = { ...audit, keyFile: folder.file('short', 'secret\n') };
  const process = starts.spawn({ file: configFor(gatewayUrl, { audit: section }) });
  expect(await process.ended).toBe(2);
  expect(process.stderr()).toMatch(
    /audit\.keyFile: names a file that has 6 bytes, and an audit key needs at least 32\. Create one: openssl rand -hex 32/,
  );
});

it('each applied configuration has its digest in the trail, by start or reload, and audit verify says it', async () => {
  const process = await start();
  const digestOf = (): string =>
    createHash('sha256')
      .update(readFileSync(join(process.folder, 'config.yaml')))
      .digest('hex');
  const first = digestOf();
  await until(() => kinds().length === 1);
  expect((await verify(audit.file)).out).toMatch(new RegExp(`^config: {3}${first} by start at 2`, 'm'));
  process.rewrite('nonsense: true');
  process.signal('SIGHUP');
  await until(() => process.logLines('configuration reload failed; keeping the current one').length > 0);
  process.rewrite(configFor(gatewayUrl, { audit, callers: [] }));
  const second = digestOf();
  process.signal('SIGHUP');
  await until(() => process.logLines('configuration reloaded').length > 0);
  await process.stop();
  const records = recordsIn(audit.file);
  expect(second).not.toBe(first);
  expect(records.map(({ audit, config }) => [audit, config])).toEqual([
    ['start', first],
    ['config', second],
    ['stop', undefined],
  ]);
  const { code, out } = await verify(audit.file);
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(new RegExp(`^config: {3}2 applied, the last ${second} by reload at 2`, 'm')),
  ]);
});

describe('a rotated file', () => {
  it('ends at SIGHUP, and the new one continues the trail', async () => {
    const process = await start();
    await process.transfer();
    await until(() => kinds().length === 3);
    renameSync(audit.file, `${audit.file}.1`);
    process.signal('SIGHUP');
    await until(() => process.logLines('configuration reloaded').length > 0);
    await until(() => readIfThere(audit.file) !== '');
    await process.transfer();
    await process.stop();
    expect([kinds(`${audit.file}.1`), kinds()]).toEqual([
      ['start', 'intent', 'result'],
      ['start', 'config', 'intent', 'result', 'stop'],
    ]);
    expect(await verify(`${audit.file}.1`, audit.file)).toMatchObject({ code: 0, err: '' });
    const { err } = await verify(audit.file, `${audit.file}.1`);
    expect(err).toMatch(/audit\.jsonl:1: The trail begins with record 4/);
    const [, head = ''] = /^head: +(.*)$/m.exec((await verify(`${audit.file}.1`)).out) ?? [];
    expect(await verify(audit.file, '--after', head)).toMatchObject({ code: 0 });
  });

  it('is the only reason for another start record: not a reload with which nothing has changed', async () => {
    const process = await startHere();
    for (let nth = 1; nth <= 2; nth += 1) {
      await process.reload({ audit });
      await process.transfer();
    }
    await process.stop();
    const request = ['config', 'intent', 'result'];
    expect(kinds()).toEqual(['start', ...request, ...request, 'stop']);
  });

  it('ends at SIGHUP though the configuration is invalid by now', async () => {
    const process = await start();
    renameSync(audit.file, `${audit.file}.1`);
    process.rewrite('nonsense: true');
    process.signal('SIGHUP');
    await until(() => process.logLines('configuration reload failed; keeping the current one').length > 0);
    await until(() => readIfThere(audit.file) !== '');
    expect(kinds()).toEqual(['start']);
  });

  it('that was removed is noticed without a signal', async () => {
    const process = await startHere();
    rmSync(audit.file);
    await until(async () => {
      await process.transfer();
      return readIfThere(audit.file) !== '';
    });
    await process.stop();
    expect((await verify(audit.file)).err).toMatch(
      /The trail begins with record \d+: the records before it are missing/,
    );
  });
});

it('a changed key seals the records after SIGHUP; both keys verify the trail', async () => {
  const process = await start();
  await process.transfer();
  await until(() => kinds().length === 3);
  const old = folder.file('old.key', readFileSync(audit.keyFile, 'utf8'));
  writeFileSync(audit.keyFile, 'too short');
  process.signal('SIGHUP');
  await until(() => process.logText().includes('audit key cannot be read again; keeping the current one'));
  await process.transfer();
  await until(() => kinds().length === 5);
  writeFileSync(audit.keyFile, 'f00d'.repeat(16));
  process.signal('SIGHUP');
  await until(() => kinds().filter((kind) => kind === 'start').length === 2);
  await process.transfer();
  await process.stop();
  expect(kinds().filter((kind) => kind !== 'config')).toEqual([
    'start',
    'intent',
    'result',
    'intent',
    'result',
    'start',
    'intent',
    'result',
    'stop',
  ]);
  expect(await verify(audit.file, '--key-file', old)).toMatchObject({ code: 0, err: '' });
  expect((await verify(audit.file)).err).toMatch(/audit\.jsonl:1: .*which no --key-file has/);
});

describe('on standard output', () => {
  it('records are lines between those of the log', async () => {
    const process = await start({ file: '-', required: true });
    const response = await process.post(paths.transfer, transferForm);
    expect(response.status).toBe(200);
    expect(await process.stop()).toBe(0);
    const output = folder.file('output', process.stdout());
    expect(await verify(output, '--skip-log')).toMatchObject({ code: 0, err: '' });
    const lines = process.stdout().trimEnd().split('\n');
    const prefixes = new Set(lines.map((line) => line.slice(0, 10)));
    expect(prefixes).toEqual(new Set(['{"level":"', '{"audit":"']));
    expect(kinds(output)).toEqual(['start', 'intent', 'result', 'stop']);
    expect((await verify(output)).err).toMatch(/The line is not a record/);
  });

  it('without a reader, requests are rejected if records are required, until it is read again', async () => {
    const process = await start({ file: '-', required: true });
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
    expect(await verify(output, '--skip-log')).toMatchObject({ code: 0, err: '' });
  }, 60_000);
});

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
