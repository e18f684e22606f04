import { readFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { auditFilesIn, auditIn, recordsIn } from '../support/audit.ts';
import { everything } from '../support/config.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { marksIn } from '../support/secret-canaries.ts';
import { type ProxyOptions, testControlKey, testKeys, writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';

const card = '4111111111111111';
const grouped = '5500-0000-0000-0004';
const other = '4012888888881881';
const anyone = { name: 'local', credentials: [{ anonymous: true as const }] };

const starts = harness();
let edge: Edge;

let audit: ReturnType<typeof auditIn>;
beforeEach(() => {
  audit = auditIn(starts.folder());
});

async function start(options: Partial<ProxyOptions> = {}): Promise<void> {
  edge = await starts.edge({
    keys: { [card]: testKeys, [grouped]: testKeys, [other]: testKeys },
    logLevel: 'debug',
    ...options,
    config: { audit, ...options.config },
  });
}

const balanceOf = (login: string) =>
  edge.send(formRequest(`/sandbox/gw/api/v2/get-balance/manager/${login}`));

/** Everything that was written: the log, the metrics, the status and the audit trail. */
async function written(): Promise<string> {
  return `${edge.logText()}${await edge.metrics()}${await edge.statusPages()}${await auditText()}`;
}

/** Once every request that is in the log has a record. */
async function auditText(): Promise<string> {
  const requests = edge.logLines('request completed').length;
  const ended = () =>
    recordsIn(audit.directory).filter(({ audit: kind }) => kind === 'result' || kind === 'rejected');
  await until(() => ended().length >= requests);
  return auditFilesIn(audit.directory)
    .map((file) => readFileSync(file, 'utf8'))
    .join('');
}

const marks = { card, grouped, other };

describe('a login that looks like a card number', () => {
  it('works, and is in no log line and no label', async () => {
    await start();
    expect((await balanceOf(card)).status).toBe(200);
    expect((await balanceOf(grouped)).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(2);
    expect(marksIn(await written(), marks)).toEqual([]);
    const lines = await edge.requestLines(2);
    expect(lines.map(({ login }) => login)).toEqual(Array(2).fill('[redacted: looks like a card number]'));
    const { list } = (await edge.instanceStatus()).keys;
    expect(new Set(list.map(({ login }) => login))).toEqual(
      new Set(['[redacted: looks like a card number]']),
    );
  });

  it('is not in the response that its keys are missing or unusable', async () => {
    await start({ keys: { [grouped]: { controlKey: '' } } });
    const missing = await balanceOf(card);
    const unusable = await balanceOf(grouped);
    const { detail } = expectProblem(missing, 'key-missing');
    expect(detail).toContain('Login "[redacted: looks like a card number]" has no keys');
    expectProblem(unusable, 'key-unusable');
    expect(marksIn(`${String(missing.body)}${String(unusable.body)}${await written()}`, marks)).toEqual([]);
    const { failures } = await edge.instanceStatus();
    expect(failures.map(({ cause, login }) => [cause, login])).toEqual([
      ['key-unusable', '[redacted: looks like a card number]'],
      ['key-missing', '[redacted: looks like a card number]'],
    ]);
  });

  it('is not in the line of a request that would be denied in enforce mode', async () => {
    await start({ config: { callers: [{ ...anyone, mode: 'dry-run', allow: [] }] } });
    await balanceOf(card);
    expect(edge.logText()).toContain('would be denied in enforce mode');
    expect(marksIn(await written(), marks)).toEqual([]);
  });

  it('is not in the lines of its rotation', async () => {
    await start();
    await balanceOf(card);
    edge.gateway.respond = (response) => {
      if (edge.gateway.requests.length === 2) {
        response.statusCode = 403;
        writeKeys(edge.keysFolder, 'sandbox', card, { controlKey: `${testControlKey}-next` });
      }
      response.end('OK');
    };
    expect((await balanceOf(card)).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(3);
    expect(edge.logText().match(/keys updated/g)).toHaveLength(2);
    expect(marksIn(await written(), marks)).toEqual([]);
  });
});

it('a card number in traceparent or X-Request-Id is in no log line and no exemplar', async () => {
  await start();
  const traceId = card.padStart(32, '0');
  const traced = (header: string) =>
    edge.send(
      formRequest('/sandbox/gw/api/v2/get-balance/manager/acme').replace('\r\n', `\r\n${header}\r\n`),
    );
  await traced(`traceparent: 00-${traceId}-b7ad6b7169203331-01`);
  await traced(`X-Request-Id: order-${card}`);
  await traced('traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
  expect((await edge.requestLines(3)).map((line) => line['traceId'])).toEqual([
    undefined,
    undefined,
    '0af7651916cd43dd8448eb211c80319c',
  ]);
  const accept = { Accept: 'application/openmetrics-text' };
  const exemplars = await (await fetch(`${edge.adminUrl}/metrics`, { headers: accept })).text();
  expect(exemplars).toContain('trace_id="0af7651916cd43dd8448eb211c80319c"');
  expect(marksIn(`${exemplars}${await written()}`, marks)).toEqual([]);
});

describe('a configured login', () => {
  const named: [place: string, options: Partial<ProxyOptions>][] = [
    ['an endpoint map', { sandbox: { endpoints: { '9': card } } }],
    [
      'an exact grant',
      { config: { callers: [{ ...anyone, allow: [everything, { ...everything, logins: [card] }] }] } },
    ],
  ];

  it.each(named)(
    'is written although it looks like a card number, if it is in %s',
    async (_place, options) => {
      await start(options);
      await balanceOf(card);
      await balanceOf(other);
      expect((await edge.requestLines(2))[0]).toMatchObject({ login: card });
      expect(await edge.metrics()).toContain(`login="${card}"`);
      expect((await edge.instanceStatus()).keys.list.map(({ login }) => login)).toContain(card);
      expect(marksIn(await written(), { other })).toEqual([]);
    },
  );

  it('is written from the reload on that names it', async () => {
    await start();
    await balanceOf(card);
    await edge.reload({ callers: [{ ...anyone, allow: [everything, { ...everything, logins: [card] }] }] });
    await balanceOf(card);
    const lines = await edge.requestLines(2);
    expect(lines.map(({ login }) => login)).toEqual(['[redacted: looks like a card number]', card]);
  });
});
