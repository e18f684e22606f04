import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { KeyChoice } from '../../src/keys/choice.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import { KeySelector } from '../../src/keys/selector.ts';
import { type Bounds, check } from '../faults/check.ts';
import {
  newProcess,
  newRecord,
  type ProcessRecord,
  type ReceivedResponse,
  type RequestRecord,
} from '../faults/ledger.ts';
import { generate } from '../rotation-model/generate.ts';
import { run } from '../rotation-model/run.ts';
import { costOf, type Evidence, violationsOf } from '../rotations/judge.ts';
import type { Row, Switch } from '../rotations/rotation.ts';

/** What the harnesses promise to find: each judge is shown one broken promise after another. */
describe('npm run faults finds', () => {
  const bounds: Bounds = { requestTimeout: 1_500, slack: 2_000, stop: 7_000, isCalm: false };
  const response: ReceivedResponse = {
    status: 200,
    outcome: 'answered',
    problem: undefined,
    requestId: 'id-0',
    saysClose: false,
    complete: true,
    bodyOf: 'o-1-0',
    body: 'whole',
  };
  const seen = { fault: 'good', at: 120, whole: true } as const;
  const line = { requestId: 'id-0', outcome: 'answered' };

  /** The rules that a transfer that went well breaks with these changes, or its process with these. */
  function broken(
    changes: Partial<RequestRecord>,
    ofProcess: Partial<ProcessRecord> = {},
    more: Partial<Bounds> = {},
  ) {
    const process = newProcess('a0');
    process.signals.push({ name: 'SIGTERM', at: 10_000 });
    Object.assign(process, { endedAt: 10_500, exit: '0' }, ofProcess);
    const record = newRecord({
      index: 0,
      orderId: 'o-1-0',
      operation: 'transfer',
      site: 'plain',
      fault: 'good',
      caller: 'keep-alive',
      position: 0,
      padding: 0,
      chunked: false,
    });
    const good = {
      process,
      sent: 'whole',
      sentAt: 100,
      endedAt: 150,
      response,
      upstream: [seen],
      lines: [line],
    };
    const requests = [Object.assign(record, good, changes)];
    return check({ requests, processes: [process] }, { ...bounds, ...more }).map(({ rule }) => rule);
  }

  it('nothing where every promise was kept', () => expect(broken({})).toEqual([]));

  const lines = (outcome: string) => [{ requestId: 'id-0', outcome }];
  const own = (outcome: string, reason: string): Partial<RequestRecord> => ({
    response: { ...response, status: 502, outcome, problem: { outcome, reason }, body: 'none' },
    lines: lines(outcome),
  });
  const none = { response: undefined, ending: 'FIN' } as const;

  it.each<readonly [string, Partial<RequestRecord>, string]>([
    ['a transfer that was seen twice', { upstream: [seen, seen] }, 'doubled'],
    ['bytes behind the last response', { surplus: true }, 'doubled'],
    ['not-sent for what was seen', own('not-sent', 'gateway-unreachable'), 'lie'],
    ['answered for what was never seen', { upstream: [] }, 'lie'],
    ['another outcome in the log', { lines: lines('unknown') }, 'lie'],
    ['a response without an outcome', { response: { ...response, outcome: undefined } }, 'lie'],
    ['a failure that the gateway did not cause', own('unknown', 'gateway-reset'), 'lie'],
    ['a request that its caller did not complete', { sent: 'part', abandoned: true }, 'lie'],
    ['the body of another request', { response: { ...response, bodyOf: 'o-1-7' } }, 'crossed'],
    ['altered bytes', { response: { ...response, body: 'altered' } }, 'crossed'],
    ['no response', none, 'lost'],
    ['no response on a connection that stays open', { ...none, ending: 'timeout' }, 'lost'],
    ['a request that was handled behind one that said close', { ...none, behind: 'close' }, 'lost'],
    ['a response that breaks off', { response: { ...response, complete: false } }, 'lost'],
    ['a response that comes too late', { endedAt: 3_601 }, 'late'],
    ['a request without a line', { lines: [] }, 'unlogged'],
    ['a request with two lines', { lines: [line, line] }, 'unlogged'],
  ])('%s', (_, changes, rule) => expect(new Set(broken(changes))).toEqual(new Set([rule])));

  it.each<readonly [string, Partial<ProcessRecord>]>([
    ['ended by itself', { signals: [], exit: '1' }],
    ['did not end in time', { endedAt: 17_001 }],
    ['ended with a failure', { exit: '1' }],
    ['wrote to standard error', { stderr: 'oops' }],
    ['logged an internal error', { internalErrors: ['{"stack":[]}'] }],
  ])('a process that %s', (_, changes) => expect(broken({}, changes)).toEqual(['process']));

  it('any other response than that of the gateway, in a rollout', () => {
    expect(broken({ response: { ...response, status: 503 } }, {}, { isCalm: true })).toEqual(['failed']);
  });

  it.each<readonly [string, Partial<RequestRecord>, Partial<ProcessRecord>]>([
    ['a caller that left', { ...none, abandoned: true }, {}],
    ['what a killed process loses', { ...none, lines: [] }, { signals: [{ name: 'SIGKILL', at: 150 }] }],
  ])('nothing in %s', (_, changes, ofProcess) => expect(broken(changes, ofProcess)).toEqual([]));
});

describe('npm run rotation-model finds it when this is broken:', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  /** Whether one of a hundred schedules breaks a promise in this way. */
  async function isFound(violation: RegExp): Promise<boolean> {
    for (let seed = 1; seed <= 100; seed += 1)
      if ((await run(generate(seed))).violations.some((one) => violation.test(one))) return true;
    return false;
  }

  it.each<readonly [string, () => unknown, RegExp]>([
    [
      'a payment is never sent again',
      () =>
        jest.spyOn(KeySelector.prototype, 'payment').mockImplementation(function (
          this: KeySelector,
          ...args
        ) {
          return this.query(...args);
        }),
      /was sent twice/,
    ],
    [
      'after a rejection, the next payment is signed with the next key',
      () => jest.spyOn(KeyChoice.prototype, 'beginTrial').mockReturnValue(undefined),
      /payment 403: with a rejected key/,
    ],
    [
      'a rejected query causes a look',
      () => jest.spyOn(KeyReader.prototype, 'look').mockReturnValue(undefined),
      /query 403/,
    ],
    [
      'the current key stays until the gateway accepts another one',
      () =>
        jest.spyOn(KeyChoice.prototype, 'current', 'get').mockImplementation(function (this: KeyChoice) {
          return this.keys[0];
        }),
      /though the gateway never accepted it/,
    ],
  ])(
    '%s',
    async (_, breakRule, violation) => {
      breakRule();
      expect(await isFound(violation)).toBe(true);
    },
    60_000,
  );
});

describe('npm run rotations finds', () => {
  const row: Row = { number: 1, login: 'acme', order: 'gateway first', pause: 5, switches: 1 };
  const gatewayFirst: Switch = { beganAt: 10_000, gatewayAt: 10_000, vaultAt: 15_000 };
  const vaultFirst: Switch = { beganAt: 10_000, gatewayAt: 15_000, vaultAt: 10_000 };
  const hit = (kind: 'read' | 'transfer', sentAt: number, result: string) => ({
    hits: [{ name: `${kind} acme`, sentAt, took: 10, result }],
  });

  it.each<readonly [string, Switch, Partial<Evidence>, RegExp]>([
    ['nothing in the 2 s after Vault has the key', gatewayFirst, hit('read', 16_900, '403 answered'), /^$/],
    ['a read that fails later', gatewayFirst, hit('read', 17_100, '403 answered'), /1 reads failed/],
    ['a read that fails earlier', gatewayFirst, hit('read', 9_000, '403 answered'), /1 reads failed/],
    ['any read that fails with Vault first', vaultFirst, hit('read', 15_100, '403 answered'), /reads failed/],
    ['a payment that fails', gatewayFirst, hit('transfer', 12_000, '504 gateway-timeout'), /payments failed/],
    ['a payment that is processed twice', gatewayFirst, { transfers: ['acme-1', 'acme-1'] }, /twice/],
    ['nothing in a payment at the switch', vaultFirst, hit('transfer', 16_900, '403 answered'), /^$/],
    ['a payment that is rejected before', vaultFirst, hit('transfer', 14_000, '403 answered'), /too late/],
    ['a payment that is rejected later', vaultFirst, hit('transfer', 17_100, '403 answered'), /too late/],
  ])('%s', (_, one, evidence, expected) => {
    const quiet = { hits: [], transfers: [], received: () => 0, pause: 0 };
    const costs = [costOf(row, [one], { ...quiet, ...evidence })];
    expect(violationsOf({ costs, mostReads: 60 }).join('\n')).toMatch(expected);
  });

  it('too many reads of Vault', () => {
    expect(violationsOf({ costs: [], mostReads: 61 })).toHaveLength(1);
  });
});
