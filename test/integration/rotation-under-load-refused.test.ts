import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Answer, post } from '../support/forwarding.ts';
import { Load, type LoadRequest, tell } from '../support/load.ts';
import { balanceOf, statusOf, TestCluster, transferOf } from '../support/test-cluster.ts';

const processes = 2;
/** Requests of one operation, login and process in a wave. */
const together = 2;
/** Milliseconds between the waves of requests. */
const every = 200;
/** Seconds of the first step of the back-off: in that time a key is found that has come to Vault. */
const step = 1;
/** Seconds for which a login is shut out. */
const shutOut = 7;
/** Trials of a key in that time: at 0, 1, 3 and 7 s. */
const mostTrials = 4;
const onlyAnswered = { '200 answered': expect.any(Number) };
const onlyRefused = { '403 answered': expect.any(Number) };

describe('under load, a gateway that rejects every request of a login', () => {
  let site: TestCluster;
  let load: Load;
  let answers: readonly Answer[];
  /** Moments of `performance.now()`. */
  const at = { refused: 0, inVault: 0, allowed: 0 };

  /**
   * `rotated`: the gateway drops the one key that Vault has; a second later Vault has the next one as well.
   * `shut-out`: the gateway refuses all requests for some seconds, whatever the key; Vault has two versions.
   * Keys are fresh for longer than all this, so that every read of Vault comes from a refusal.
   */
  beforeAll(async () => {
    site = await new TestCluster({ logins: ['shut-out', 'rotated'], fresh: '60s' }).open();
    const next = site.newKeys();
    await site.putInVault('shut-out', next);
    site.acceptOnly('shut-out', next);
    await site.startProcesses(processes, await site.appRole());
    load = new Load(wave, every);
    await wait(1000);
    site.vault.seen.length = 0;
    site.acceptOnly('rotated', next);
    site.gateway.accounts.setRefused('shut-out', true);
    at.refused = performance.now();
    await wait(1000);
    await site.putInVault('rotated', next);
    at.inVault = performance.now();
    await wait((shutOut - 1) * 1000);
    answers = await Promise.all(site.processes.map((one) => post(balanceOf(one, 'shut-out').url, '')));
    site.gateway.accounts.setRefused('shut-out', false);
    at.allowed = performance.now();
    await wait(1000);
    await load.end();
  }, 30_000);
  afterAll(() => site.close());

  function wave(): LoadRequest[] {
    return site.processes.flatMap((one) => {
      const ofEach = ['rotated', 'shut-out'].flatMap((login) => [
        balanceOf(one, login),
        statusOf(one, login),
      ]);
      return [transferOf(one), ...Array.from({ length: together }, () => ofEach).flat()];
    });
  }

  const readsOf = (login: string) =>
    site.vault.count(new RegExp(`^GET secret/data/gateway/sandbox/${login}`));

  it('because Vault does not have its key yet, causes no 403 later than 1 s after Vault has it', async () => {
    const rotated = /^(balance|status) rotated/;
    const recovered = at.inVault + step * 1000 + 400;
    const seen = {
      before: load.results(rotated, 0, at.refused),
      'while Vault has only the dropped key': load.results(rotated, at.refused, at.inVault),
      'in the second after': load.results(rotated, at.inVault, recovered),
      'from then on': load.results(rotated, recovered),
      'refused at the gateway': site.gateway.seen.count({ rejection: 'signature-wrong' }),
      'Vault reads': readsOf('rotated'),
      'fallbacks to newer': await site.metric('key_fallbacks_total', { login: 'rotated', to: 'newer' }),
    };
    tell('The gateway drops the only key that Vault has, and Vault gets the next one later', seen);
    expect(seen.before).toEqual(onlyAnswered);
    expect(seen['while Vault has only the dropped key']).toEqual(onlyRefused);
    expect(seen['from then on']).toEqual(onlyAnswered);
    // A request was sent a second time only when there was another key: those under way when it is found.
    const passedOn = load.results(rotated)['403 answered'] ?? 0;
    const wavesUnderWay = 1 + Math.ceil(load.slowest / every);
    expect(seen['refused at the gateway'] - passedOn).toBeLessThanOrEqual(
      2 * processes * together * wavesUnderWay,
    );
    // One look in each second, and one for each kind of key when it was found; it reads two versions at most.
    const periods = 1 + Math.ceil((at.inVault - at.refused) / 1000 / step);
    expect(seen['Vault reads']).toBeLessThanOrEqual(2 * processes * 2 * periods);
  });

  it('because it is blocked, causes one trial per step of the back-off, and no flood at the gateway or at Vault', async () => {
    const shutOut = /^(balance|status) shut-out/;
    const allOfIt = /shut-out|transfer/;
    const seen = {
      'while shut out': load.results(shutOut, at.refused, at.allowed),
      'from then on': load.results(shutOut, at.allowed),
      'refused at the gateway': site.gateway.seen.count({ rejection: 'login-refused' }),
      'Vault reads': readsOf('shut-out'),
      fallbacks: await site.metric('key_fallbacks_total', { login: 'shut-out' }),
    };
    tell(`The gateway refuses a login for ${Math.round((at.allowed - at.refused) / 1000)} s`, seen);
    expect(seen['while shut out']).toEqual(onlyRefused);
    expect(seen['from then on']).toEqual(onlyAnswered);
    const seconds = Math.ceil((at.allowed - at.refused) / 1000);
    const trials = mostTrials * 2 * processes;
    const passedOn = (load.results(allOfIt)['403 answered'] ?? 0) + answers.length;
    expect(seen['refused at the gateway'] - passedOn).toBeLessThanOrEqual(trials);
    // One look in a second for both kinds of key; it reads two versions.
    expect(seen['Vault reads']).toBeLessThanOrEqual(2 * (1 + seconds) * processes);
    expect(seen.fallbacks).toBe(0);
  });

  it('has its responses forwarded: status and body', () => {
    for (const { status, headers, body } of answers) {
      expect({ status, body }).toEqual({ status: 403, body: expect.stringContaining('Access is denied') });
      expect(headers['countersign-outcome']).toBe('answered');
      expect(headers['content-type']).toMatch(/^text\/html/);
    }
  });

  it('gets every transfer once', () => {
    const { '200 answered': answered = 0, '403 answered': refused = 0, ...others } = load.results(/transfer/);
    expect(others).toEqual({});
    expect(refused).toBeGreaterThan(0);
    expect(site.gateway.seen.count({ operation: 'transfer' })).toBe(answered + refused);
    expect(new Set(site.transfers).size).toBe(answered);
  });

  it('got more than 50 requests per second, and no secret leaked', async () => {
    expect(load.rate).toBeGreaterThan(50);
    expect(await site.leaks(load.seen(), JSON.stringify(answers))).toEqual([]);
  });
});
