import { describe, expect, it } from '@jest/globals';
import { CircuitBreaker } from '../../../src/keys/vault/circuit-breaker.ts';
import { PermissionBreakers } from '../../../src/keys/vault/denied-logins.ts';
import { VaultError } from '../../../src/keys/vault/errors.ts';
import { ExponentialBackoff } from '../../../src/util/backoff.ts';
import { setTimer } from '../../../src/util/timer.ts';

const at = (random: number) => ({ monotonic: () => 0, random: () => random });
const range = { initial: 1000, max: 10_000 };

describe('backing off', () => {
  it('doubles each wait up to the maximum', () => {
    const backOff = new ExponentialBackoff(at(0), range);
    const waits = Array.from({ length: 6 }, () => {
      backOff.recordFailure();
      return backOff.remaining;
    });
    expect(waits).toEqual([1000, 2000, 4000, 8000, 10_000, 10_000]);
  });

  it('has jitter of up to half, so that instances do not retry together', () => {
    const backOff = new ExponentialBackoff(at(0.999), range);
    backOff.recordFailure();
    expect(backOff.remaining).toBeCloseTo(500.5);
  });

  it('is never shorter than Retry-After, plus jitter', () => {
    for (const random of [0, 0.5, 0.999]) {
      const backOff = new ExponentialBackoff(at(random), range);
      backOff.recordFailure(60);
      expect(backOff.remaining).toBeGreaterThanOrEqual(60_000);
      expect(backOff.remaining).toBeLessThan(60_500);
    }
  });

  it('subtracts the time until the failure, but not from Retry-After', () => {
    const backOff = new ExponentialBackoff(at(0), range);
    backOff.recordFailure(0, 400);
    expect(backOff.remaining).toBe(600);
    backOff.recordFailure(0, 5000);
    expect(backOff.remaining).toBe(0);
    backOff.recordFailure(60, 5000);
    expect(backOff.remaining).toBe(60_000);
  });

  it('starts with the initial wait again after a success', () => {
    const backOff = new ExponentialBackoff(at(0), range);
    backOff.recordFailure();
    backOff.recordFailure();
    backOff.reset();
    expect([backOff.remaining, backOff.failures]).toEqual([0, 0]);
    backOff.recordFailure();
    expect(backOff.remaining).toBe(1000);
  });

  it('says what went wrong last and when to come back', () => {
    const gate = new CircuitBreaker(at(0), range);
    gate.assertClosed();
    gate.trip(new VaultError('sealed', { status: 503 }));
    expect(() => gate.assertClosed()).toThrow(
      'backing off after a Vault failure (last: Vault is sealed (HTTP 503))',
    );
    expect(() => gate.assertClosed()).toThrow(
      expect.objectContaining({ kind: 'backing-off', retryAfter: 1 }),
    );
    gate.reset();
    gate.assertClosed();
  });

  it('holds for the denied login alone, and remembers no more than a thousand', () => {
    const denied = new PermissionBreakers(at(0));
    const login = (name: string) => ({ environment: 'sandbox', login: name });
    const error = new VaultError('denied', { status: 403 });
    denied.trip(login('first'), error);
    expect(() => denied.assertClosed(login('first'))).toThrow(VaultError);
    expect(() => denied.assertClosed({ ...login('first'), environment: 'production' })).not.toThrow();
    for (let index = 0; index < 1000; index += 1) denied.trip(login(`l${index}`), error);
    expect(() => denied.assertClosed(login('first'))).not.toThrow();
    expect(() => denied.assertClosed(login('l0'))).toThrow(VaultError);
    denied.reset(login('l0'));
    expect(() => denied.assertClosed(login('l0'))).not.toThrow();
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
