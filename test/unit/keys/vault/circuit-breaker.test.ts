import { describe, expect, it } from '@jest/globals';
import { CircuitBreaker } from '../../../../src/keys/vault/circuit-breaker.ts';
import { VaultError } from '../../../../src/keys/vault/errors.ts';

describe('the circuit breaker, while Vault is unavailable,', () => {
  const sealed = new VaultError('sealed', { status: 503 });
  const fails = () => Promise.reject(sealed);
  const opened = async () => {
    const time = { now: 0 };
    const breaker = new CircuitBreaker(
      { monotonic: () => time.now, random: () => 0 },
      { initial: 1000, max: 1000 },
    );
    await expect(breaker.run(fails)).rejects.toBe(sealed);
    return { breaker, time };
  };
  const works = () => Promise.resolve('response');

  it('says what went wrong last and when to come back', async () => {
    const { breaker } = await opened();
    await expect(breaker.run(works)).rejects.toMatchObject({
      kind: 'backing-off',
      message: 'backing off after a Vault failure (last: Vault is sealed (HTTP 503))',
      retryAfter: 1,
    });
  });

  it('lets one probe through at a time, and everything after a response', async () => {
    const { breaker, time } = await opened();
    time.now = 1000;
    const { promise, resolve } = Promise.withResolvers<string>();
    const probe = breaker.run(() => promise);
    time.now = 9000;
    await expect(breaker.run(works)).rejects.toMatchObject({ kind: 'backing-off' });
    resolve('back');
    expect(await probe).toBe('back');
    expect(await Promise.all([breaker.run(works), breaker.run(works)])).toEqual(['response', 'response']);
  });

  it('lets no second probe through because a request from before the outage ends', async () => {
    const time = { now: 0 };
    const breaker = new CircuitBreaker(
      { monotonic: () => time.now, random: () => 0 },
      { initial: 1000, max: 1000 },
    );
    const [hung, probe] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const early = breaker.run(() => hung.promise);
    time.now = 1;
    await breaker.run(works);
    await expect(breaker.run(fails)).rejects.toBe(sealed);
    time.now = 2000;
    const probing = breaker.run(() => probe.promise);
    hung.reject(sealed);
    await expect(early).rejects.toBe(sealed);
    await expect(breaker.run(works)).rejects.toMatchObject({ kind: 'backing-off' });
    probe.resolve('back');
    expect(await probing).toBe('back');
  });

  it('counts any response as one, whatever it says', async () => {
    const { breaker, time } = await opened();
    time.now = 1000;
    const denied = new VaultError('denied', { status: 403 });
    await expect(breaker.run(() => Promise.reject(denied))).rejects.toBe(denied);
    expect(await Promise.all([breaker.run(works), breaker.run(works)])).toEqual(['response', 'response']);
  });

  it('ignores a request that hung if Vault has responded since', async () => {
    const { breaker, time } = await opened();
    time.now = 1000;
    await breaker.run(works);
    const { promise, reject } = Promise.withResolvers<string>();
    const hung = breaker.run(() => promise);
    time.now = 1500;
    await breaker.run(works);
    reject(sealed);
    await expect(hung).rejects.toBe(sealed);
    expect(await breaker.run(works)).toBe('response');
  });
});
