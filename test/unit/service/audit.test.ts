import { readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { LogDestination } from '../../../src/observability/log-destination.ts';
import { openAudit } from '../../../src/service/audit.ts';
import { auditFilesIn, auditIn, recordsOf } from '../../support/audit.ts';
import { harness } from '../../support/harness.ts';
import { Pipe } from '../../support/pipe.ts';
import { until } from '../../support/until.ts';

const starts = harness();

let lines: { level: string; message: string; fields: object }[];
let states: unknown[];
let written: number;
beforeEach(() => {
  [lines, states, written] = [[], [], 0];
});

function open(
  config: Partial<ReturnType<typeof auditIn>> & { keyFile: string },
  { required = false, logDestination }: { required?: boolean; logDestination?: LogDestination } = {},
) {
  const ignored = (): void => {};
  return openAudit(
    { ...config, required, sync: false },
    {
      log: { message: (level, message, fields = {}) => void lines.push({ level, message, fields }) },
      metrics: {
        auditRecordsWritten: ({ sequence }) => (written = sequence),
        auditRecordsLost: ignored,
        auditRecordsOmitted: ignored,
        auditUp: (...state) => void states.push(state),
      },
      digest: 'digest',
      clock: Date.now,
      monotonic: () => performance.now(),
      logDestination,
    },
  );
}

const messages = () => lines.map(({ level, message }) => `${level} ${message}`);

const recordsByFile = (directory: string) =>
  auditFilesIn(directory).map((file) => recordsOf(readFileSync(file, 'utf8')));

it('a key that cannot be read again changes nothing', async () => {
  const config = auditIn(starts.folder());
  const audit = await open(config);
  writeFileSync(config.keyFile, 'too short');
  await expect(audit.reopen()).rejects.toThrow(/key/);
  await audit.close(2_000);
  expect(recordsByFile(config.directory)).toMatchObject([[{ audit: 'start' }, { audit: 'stop' }]]);
});

it('the start record of the next file has the digest of the configuration that was applied last', async () => {
  const config = auditIn(starts.folder());
  const audit = await open(config);
  audit.configApplied('other');
  await audit.reopen();
  await audit.close(2_000);
  expect(recordsByFile(config.directory)).toMatchObject([
    [
      { audit: 'start', config: 'digest' },
      { audit: 'config', config: 'other' },
    ],
    [{ audit: 'start', config: 'other' }, { audit: 'stop' }],
  ]);
});

it('where the next file cannot be begun, the one before is still written, and the log says so', async () => {
  const config = auditIn(starts.folder());
  const audit = await open(config);
  const [first = ''] = auditFilesIn(config.directory);
  writeFileSync(first.replace('0001', '0002'), 'notes');
  await audit.reopen();
  await audit.close(2_000);
  expect(messages()[0]).toBe('error the next audit file cannot be begun; records go to the one before');
  expect(recordsByFile(config.directory)[0]?.map(({ audit: kind }) => kind)).toEqual([
    'start',
    'start',
    'stop',
  ]);
});

describe('a trail on standard output', () => {
  function toLog(required: boolean) {
    const pipe = starts.closing(new Pipe());
    const { descriptor } = pipe;
    const logDestination = new LogDestination({ descriptor, monotonic: () => performance.now() });
    const { keyFile } = auditIn(starts.folder());
    return { pipe, logDestination, open: () => open({ keyFile }, { required, logDestination }) };
  }
  /** More than a pipe holds. */
  const fill = (log: LogDestination): void => log.write(`${'x'.repeat(100_000)}\n`);
  const kinds = (text: string) => recordsOf(text).map(({ audit: kind }) => kind);

  it('has its records among the lines of the log, each in one line', async () => {
    const { pipe, logDestination, open: openTrail } = toLog(false);
    logDestination.write('{"msg":"a"}\n');
    const opened = await openTrail();
    await until(() => written === 1);
    logDestination.write('{"msg":"b"}\n');
    await opened.close(2_000);
    const text = pipe.read().toString();
    expect(kinds(text)).toEqual(['start', 'stop']);
    for (const line of text.trimEnd().split('\n')) expect(() => JSON.parse(line)).not.toThrow();
    expect(lines).toEqual([
      {
        level: 'info',
        message: 'audit head',
        fields: { sequence: 2, mac: recordsOf(text)[1]?.['mac'] },
      },
    ]);
  });

  it.each([true, false])('that stalls rejects requests if records are required: %j', async (required) => {
    const { pipe, logDestination, open: openTrail } = toLog(required);
    fill(logDestination);
    const opened = await openTrail();
    expect(opened.isUnavailable()).toBe(false);
    await until(() => states.length > 0);
    expect([opened.isUnavailable(), states[0], messages()]).toEqual([
      required,
      [false, 'timeout'],
      ['error audit records cannot be written'],
    ]);
    let read = '';
    await until(() => {
      read += pipe.read().toString();
      return written > 0;
    });
    read += pipe.read().toString();
    expect([kinds(read.replace(/^x+$/m, '')), opened.isUnavailable(), states.at(-1)]).toEqual([
      ['start'],
      false,
      [true],
    ]);
    expect(messages().slice(1)).toEqual(['info audit records are written again']);
    await opened.close(2_000);
  });

  it('that stays stalled loses records, which the log counts', async () => {
    const { logDestination, open: openTrail } = toLog(false);
    fill(logDestination);
    await (await openTrail()).close(200);
    expect(lines.at(-1)).toEqual({ level: 'error', message: 'audit records lost', fields: { records: 2 } });
  });
});

it('the head is logged at the end of a minute in which a record was written', async () => {
  jest.useFakeTimers({ advanceTimers: true, doNotFake: ['performance'] });
  try {
    const audit = await open(auditIn(starts.folder()));
    await until(() => written === 1);
    jest.advanceTimersByTime(55_000);
    expect(messages()).toEqual([]);
    for (let minute = 0; minute < 2; minute += 1) jest.advanceTimersByTime(60_000);
    expect(messages()).toEqual(['info audit head']);
    await audit.close(2_000);
  } finally {
    jest.useRealTimers();
  }
});
