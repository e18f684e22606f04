import { describe, expect, it } from '@jest/globals';
import { BackOff } from '../../../src/keys/back-off.ts';
import { DeniedLogins } from '../../../src/keys/vault/denied.ts';
import { Gate } from '../../../src/keys/vault/gate.ts';
import { VaultError } from '../../../src/keys/vault/problem.ts';
import { setTimer } from '../../../src/util/timer.ts';

const at = (random: number) => ({ monotonic: () => 0, random: () => random });
const range = { first: 1000, longest: 10_000 };

describe('backing off', () => {
  it('doubles each wait up to the longest', () => {
    const backOff = new BackOff(at(0), range);
    const waits = Array.from({ length: 6 }, () => {
      backOff.failed();
      return backOff.wait;
    });
    expect(waits).toEqual([1000, 2000, 4000, 8000, 10_000, 10_000]);
  });

  it('is shorter by up to half, by chance, so that instances do not come back together', () => {
    const backOff = new BackOff(at(0.999), range);
    backOff.failed();
    expect(backOff.wait).toBeCloseTo(500.5);
  });

  it('is never shorter than Retry-After, and longer by chance', () => {
    for (const random of [0, 0.5, 0.999]) {
      const backOff = new BackOff(at(random), range);
      backOff.failed(60);
      expect(backOff.wait).toBeGreaterThanOrEqual(60_000);
      expect(backOff.wait).toBeLessThan(60_500);
    }
  });

  it('counts the time that it took to fail, but not against Retry-After', () => {
    const backOff = new BackOff(at(0), range);
    backOff.failed(0, 400);
    expect(backOff.wait).toBe(600);
    backOff.failed(0, 5000);
    expect(backOff.wait).toBe(0);
    backOff.failed(60, 5000);
    expect(backOff.wait).toBe(60_000);
  });

  it('begins small again after a success', () => {
    const backOff = new BackOff(at(0), range);
    backOff.failed();
    backOff.failed();
    backOff.succeeded();
    expect([backOff.wait, backOff.failures]).toEqual([0, 0]);
    backOff.failed();
    expect(backOff.wait).toBe(1000);
  });

  it('says what went wrong last and when to come back', () => {
    const gate = new Gate(at(0), range);
    gate.check();
    gate.close(new VaultError('sealed', { status: 503 }));
    expect(() => gate.check()).toThrow(
      'not asked again yet after a failure (last: Vault is sealed (HTTP 503))',
    );
    expect(() => gate.check()).toThrow(expect.objectContaining({ kind: 'backing-off', retryAfter: 1 }));
    gate.open();
    gate.check();
  });

  it('holds for the denied login alone, and remembers no more than a thousand', () => {
    const denied = new DeniedLogins(at(0));
    const login = (name: string) => ({ environment: 'sandbox', login: name });
    const error = new VaultError('denied', { status: 403 });
    denied.remember(login('first'), error);
    expect(() => denied.check(login('first'))).toThrow(VaultError);
    expect(() => denied.check({ ...login('first'), environment: 'production' })).not.toThrow();
    for (let index = 0; index < 1000; index += 1) denied.remember(login(`l${index}`), error);
    expect(() => denied.check(login('first'))).not.toThrow();
    expect(() => denied.check(login('l0'))).toThrow(VaultError);
    denied.forget(login('l0'));
    expect(() => denied.check(login('l0'))).not.toThrow();
  });

  it('uses timers that a lease of more than 24 days does not fire at once', async () => {
    let fired = false;
    const cancel = setTimer(() => {
      fired = true;
    }, 32 * 86_400_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    cancel();
    expect(fired).toBe(false);
  });
});
