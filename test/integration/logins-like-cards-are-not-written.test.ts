import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { auditFilesIn, auditIn, recordsIn } from '../support/audit.ts';
import { everything } from '../support/config.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { marksIn } from '../support/secret-canaries.ts';
import { type ProxyOptions, testKeys } from '../support/service.ts';
import { until } from '../support/until.ts';

const card = '4111111111111111';
const grouped = '5500-0000-0000-0004';
const other = '4012888888881881';
const marks = { card, grouped, other };
const redacted = '[redacted: looks like a card number]';
const anyone = { name: 'local', credentials: [{ anonymous: true as const }] };

const starts = harness();

async function start(options: Partial<ProxyOptions> = {}) {
  const audit = auditIn(starts.folder());
  const edge = await starts.edge({
    keys: { [card]: testKeys, [grouped]: testKeys, [other]: testKeys },
    logLevel: 'debug',
    ...options,
    config: { audit, ...options.config },
  });
  const balanceOf = (login: string) =>
    edge.send(formRequest(`/sandbox/gw/api/v2/get-balance/manager/${login}`));
  /** Everything that was written: the log, the metrics, the status and the audit trail, with a record of every request. */
  const written = async (): Promise<string> => {
    const requests = edge.logLines('request completed').length;
    const ended = () =>
      recordsIn(audit.directory).filter(({ audit: kind }) => kind === 'result' || kind === 'rejected');
    await until(() => ended().length >= requests);
    const trail = auditFilesIn(audit.directory).map((file) => readFileSync(file, 'utf8'));
    return [edge.logText(), await edge.metrics(), await edge.statusPages(), ...trail].join('');
  };
  return { edge, balanceOf, written };
}

const loginsIn = async (edge: Edge, count: number) =>
  (await edge.requestLines(count)).map(({ login }) => login);

describe('a login that looks like a card number', () => {
  it('works, and is in no log line and no label', async () => {
    const { edge, balanceOf, written } = await start();
    for (const login of [card, grouped]) expect((await balanceOf(login)).status).toBe(200);
    expect(marksIn(await written(), marks)).toEqual([]);
    expect(await loginsIn(edge, 2)).toEqual([redacted, redacted]);
    const { list } = (await edge.instanceStatus()).keys;
    expect(new Set(list.map(({ login }) => login))).toEqual(new Set([redacted]));
  });

  it('is not in the response that its keys are missing or unusable', async () => {
    const { edge, balanceOf, written } = await start({ keys: { [grouped]: { controlKey: '' } } });
    const [missing, unusable] = [await balanceOf(card), await balanceOf(grouped)];
    const { detail } = expectProblem(missing, 'key-missing');
    expect(detail).toContain(`Login "${redacted}" has no keys`);
    expectProblem(unusable, 'key-unusable');
    expect(marksIn(`${String(missing.body)}${String(unusable.body)}${await written()}`, marks)).toEqual([]);
    const { failures } = await edge.instanceStatus();
    expect(failures.map(({ cause, login }) => [cause, login])).toEqual([
      ['key-unusable', redacted],
      ['key-missing', redacted],
    ]);
  });

  it('is not in the line of a request that would be denied in enforce mode', async () => {
    const { edge, balanceOf, written } = await start({
      config: { callers: [{ ...anyone, mode: 'dry-run', allow: [] }] },
    });
    await balanceOf(card);
    expect(edge.logText()).toContain('would be denied in enforce mode');
    expect(marksIn(await written(), marks)).toEqual([]);
  });
});

it('a card number in traceparent or X-Request-Id is in no log line and no exemplar', async () => {
  const { edge, written } = await start();
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const request = formRequest('/sandbox/gw/api/v2/get-balance/manager/acme');
  for (const header of [
    `traceparent: 00-${card.padStart(32, '0')}-b7ad6b7169203331-01`,
    `X-Request-Id: order-${card}`,
    `traceparent: 00-${traceId}-b7ad6b7169203331-01`,
  ])
    await edge.send(request.replace('\r\n', `\r\n${header}\r\n`));
  const lines = await edge.requestLines(3);
  expect(lines.map((line) => line['traceId'])).toEqual([undefined, undefined, traceId]);
  const accept = { Accept: 'application/openmetrics-text' };
  const exemplars = await (await fetch(`${edge.adminUrl}/metrics`, { headers: accept })).text();
  expect(exemplars).toContain(`trace_id="${traceId}"`);
  expect(marksIn(`${exemplars}${await written()}`, marks)).toEqual([]);
});

describe('a configured login', () => {
  const callers = [{ ...anyone, allow: [everything, { ...everything, logins: [card] }] }];

  it.each<[string, Partial<ProxyOptions>]>([
    ['an endpoint map', { sandbox: { endpoints: { '9': card } } }],
    ['an exact grant', { config: { callers } }],
  ])('is written although it looks like a card number, if it is in %s', async (_place, options) => {
    const { edge, balanceOf, written } = await start(options);
    for (const login of [card, other]) await balanceOf(login);
    expect(await loginsIn(edge, 2)).toEqual([card, redacted]);
    expect(await edge.metrics()).toContain(`login="${card}"`);
    expect((await edge.instanceStatus()).keys.list.map(({ login }) => login)).toContain(card);
    expect(marksIn(await written(), { other })).toEqual([]);
  });

  it('is written from the reload on that names it', async () => {
    const { edge, balanceOf } = await start();
    await balanceOf(card);
    await edge.reload({ callers });
    await balanceOf(card);
    expect(await loginsIn(edge, 2)).toEqual([redacted, card]);
  });
});
