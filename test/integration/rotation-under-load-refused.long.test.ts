import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type HttpResponse, post } from '../support/forwarding.ts';
import { Load, type LoadRequest, printNumbers } from '../support/load.ts';
import { balanceOf, statusOf, TestCluster, transferOf } from '../support/test-cluster.ts';

const processes = 2;
/** Requests of one operation, login and process in a wave. */
const together = 2;
/** Milliseconds between the waves of requests. */
const every = 200;
/** Seconds of the first step of the back-off: a new key in Vault is found within that time. */
const step = 1;
/** Seconds for which a login is blocked. */
const shutOut = 7;
/** Steps of the back-off in that time: at 0, 1, 3 and 7 s. */
const mostSteps = 4;
/** More requests of a step: with the other key, and once more with each, since a key was accepted shortly before. */
const perStep = 3;
const onlyAnswered = { '200 answered': expect.any(Number) };
const onlyRejected = { '403 answered': expect.any(Number) };

describe('under load, a gateway that rejects every request of a login', () => {
  let cluster: TestCluster;
  let load: Load;
  let responses: readonly HttpResponse[];
  /** Moments of `performance.now()`. */
  const at = { rejected: 0, inVault: 0, allowed: 0 };

  /**
   * `rotated`: the gateway drops the only key that Vault has; a second later Vault gets the next one.
   * `shut-out`: the gateway rejects all requests for some seconds, whatever the key; Vault has two versions.
   * Keys are fresh for longer than that, so that every read of Vault is caused by a 403.
   */
  beforeAll(async () => {
    cluster = await new TestCluster({ logins: ['shut-out', 'rotated'], fresh: '60s' }).open();
    const next = cluster.newKeys();
    await cluster.putInVault('shut-out', next);
    cluster.acceptOnly('shut-out', next);
    await cluster.startProcesses(processes, await cluster.appRole());
    load = new Load(wave, every);
    await wait(1000);
    cluster.vault.seen.length = 0;
    cluster.acceptOnly('rotated', next);
    cluster.acceptOnly('shut-out');
    at.rejected = performance.now();
    await wait(1000);
    await cluster.putInVault('rotated', next);
    at.inVault = performance.now();
    await wait((shutOut - 1) * 1000);
    responses = await Promise.all(cluster.processes.map((one) => post(balanceOf(one, 'shut-out').url, '')));
    cluster.acceptOnly('shut-out', next);
    at.allowed = performance.now();
    await wait(1000);
    await load.end();
  }, 30_000);
  afterAll(() => cluster.close());

  function wave(): LoadRequest[] {
    return cluster.processes.flatMap((one) => {
      const ofEach = ['rotated', 'shut-out'].flatMap((login) => [
        balanceOf(one, login),
        statusOf(one, login),
      ]);
      return [transferOf(one), ...Array.from({ length: together }, () => ofEach).flat()];
    });
  }

  const readsOf = (login: string) =>
    cluster.vault.count(new RegExp(`^GET secret/data/gateway/sandbox/${login}`));

  it('because Vault does not have its key yet, causes no 403 later than 1 s after Vault has it', async () => {
    const rotated = /^(balance|status) rotated/;
    const recovered = at.inVault + step * 1000 + 400;
    const seen = {
      before: load.results(rotated, 0, at.rejected),
      'while Vault has only the dropped key': load.results(rotated, at.rejected, at.inVault),
      'in the next second': load.results(rotated, at.inVault, recovered),
      'from then on': load.results(rotated, recovered),
      'rejected at the gateway': cluster.gateway.seen.count({ rejection: 'signature-wrong' }),
      'Vault reads': readsOf('rotated'),
      'fallbacks to newer': await cluster.metric('key_fallbacks_total', { login: 'rotated', to: 'newer' }),
    };
    printNumbers('The gateway drops the only key that Vault has, and Vault gets the next one later', seen);
    expect(seen.before).toEqual(onlyAnswered);
    expect(seen['while Vault has only the dropped key']).toEqual(onlyRejected);
    expect(seen['from then on']).toEqual(onlyAnswered);
    // Only requests in flight when another key is found are retried.
    const forwarded = load.results(rotated)['403 answered'] ?? 0;
    const wavesInFlight = 1 + Math.ceil(load.slowest / every);
    expect(seen['rejected at the gateway'] - forwarded).toBeLessThanOrEqual(
      2 * processes * together * wavesInFlight,
    );
    // One refresh per second, and one per kind of key when it was found; each reads two versions at most.
    const periods = 1 + Math.ceil((at.inVault - at.rejected) / 1000 / step);
    expect(seen['Vault reads']).toBeLessThanOrEqual(2 * processes * 2 * periods);
  });

  it('because it is blocked, causes trials at each step of the back-off, and no flood at the gateway or at Vault', async () => {
    const shutOut = /^(balance|status) shut-out/;
    const allOfIt = /shut-out|transfer/;
    const seen = {
      'while blocked': load.results(shutOut, at.rejected, at.allowed),
      'from then on': load.results(shutOut, at.allowed),
      'rejected at the gateway': cluster.gateway.seen.count({ rejection: 'key-missing' }),
      'Vault reads': readsOf('shut-out'),
      fallbacks: await cluster.metric('key_fallbacks_total', { login: 'shut-out' }),
    };
    printNumbers(`The gateway blocks a login for ${Math.round((at.allowed - at.rejected) / 1000)} s`, seen);
    expect(seen['while blocked']).toEqual(onlyRejected);
    expect(seen['from then on']).toEqual(onlyAnswered);
    const seconds = Math.ceil((at.allowed - at.rejected) / 1000);
    // All queries of a wave are rejected at the same time, and try together.
    const trials = perStep * mostSteps * 2 * processes * together;
    const forwarded = (load.results(allOfIt)['403 answered'] ?? 0) + responses.length;
    expect(seen['rejected at the gateway'] - forwarded).toBeLessThanOrEqual(trials);
    // One refresh per second for both kinds of key; each reads two versions.
    expect(seen['Vault reads']).toBeLessThanOrEqual(2 * (1 + seconds) * processes);
    expect(seen.fallbacks).toBe(0);
  });

  it('has its responses forwarded: status and body', () => {
    for (const { status, headers, body } of responses) {
      expect({ status, body }).toEqual({ status: 403, body: expect.stringContaining('Access is denied') });
      expect(headers['countersign-outcome']).toBe('answered');
      expect(headers['content-type']).toMatch(/^text\/html/);
    }
  });

  it('gets every transfer once', () => {
    const {
      '200 answered': answered = 0,
      '403 answered': rejected = 0,
      ...others
    } = load.results(/transfer/);
    expect(others).toEqual({});
    expect(rejected).toBeGreaterThan(0);
    expect(cluster.gateway.seen.count({ operation: 'transfer' })).toBe(answered + rejected);
    expect(new Set(cluster.transfers).size).toBe(answered);
  });

  it('got more than 50 requests per second, and no secret leaked', async () => {
    expect(load.rate).toBeGreaterThan(50);
    expect(await cluster.leaks(load.seen(), JSON.stringify(responses))).toEqual([]);
  });
});
