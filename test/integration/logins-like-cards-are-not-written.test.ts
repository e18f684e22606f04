import { describe, expect, it } from '@jest/globals';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { marksIn } from '../support/secret-canaries.ts';
import { type ProxyOptions, testControlKey, testPrivateKey, writeKeys } from '../support/service.ts';

const card = '4111111111111111';
const grouped = '5500-0000-0000-0004';
const other = '4012888888881881';
const keys = { controlKey: testControlKey, privateKey: testPrivateKey };
const anyone = { name: 'local', credentials: [{ anonymous: true as const }] };
const anything = { environments: ['*'], operations: ['*'], logins: ['*'] };

const starts = harness();
let edge: Edge;

async function start(options: Partial<ProxyOptions> = {}): Promise<void> {
  edge = await starts.edge({
    keys: { [card]: keys, [grouped]: keys, [other]: keys },
    logLevel: 'debug',
    ...options,
  });
}

const balanceOf = (login: string) =>
  edge.send(formRequest(`/sandbox/gw/api/v2/get-balance/manager/${login}`));

/** Everything that was written: the log and the metrics. */
async function written(): Promise<string> {
  return `${edge.logText()}${await edge.metrics()}`;
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
  });

  it('is not in the response that its keys are missing or unusable', async () => {
    await start({ keys: { [grouped]: { controlKey: '' } } });
    const missing = await balanceOf(card);
    const unusable = await balanceOf(grouped);
    const { detail } = expectProblem(missing, 'key-missing');
    expect(detail).toContain('Login "[redacted: looks like a card number]" has no keys');
    expectProblem(unusable, 'key-unusable');
    expect(marksIn(`${String(missing.body)}${String(unusable.body)}${await written()}`, marks)).toEqual([]);
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

describe('a configured login', () => {
  const named: [place: string, options: Partial<ProxyOptions>][] = [
    ['an endpoint map', { sandbox: { endpoints: { '9': card } } }],
    [
      'an exact grant',
      { config: { callers: [{ ...anyone, allow: [anything, { ...anything, logins: [card] }] }] } },
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
      expect(marksIn(await written(), { other })).toEqual([]);
    },
  );

  it('is written from the reload on that names it', async () => {
    await start();
    await balanceOf(card);
    await edge.reload({ callers: [{ ...anyone, allow: [anything, { ...anything, logins: [card] }] }] });
    await balanceOf(card);
    const lines = await edge.requestLines(2);
    expect(lines.map(({ login }) => login)).toEqual(['[redacted: looks like a card number]', card]);
  });
});
