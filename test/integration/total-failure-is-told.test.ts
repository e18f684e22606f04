import { describe, expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** An instance that was well for a long time, and its status some seconds later. */
async function startWell(options = {}) {
  let later = 0;
  const clocks = { clock: () => Date.now() + later, monotonic: () => performance.now() + later };
  const edge = await starts.edge({ ...clocks, ...options });
  for (let batch = 0; batch < 12; batch += 1)
    await Promise.all(Array.from({ length: 10 }, () => edge.balance()));
  expect(await edge.instanceStatus()).toMatchObject({ well: true, findings: [] });
  later += 4_000;
  return {
    edge,
    passes: (seconds: number): void => void (later += seconds * 1000),
    found: async () => {
      const { well, findings } = await edge.instanceStatus();
      return { well, bad: findings.flatMap(({ severity, code }) => (severity === 'bad' ? [code] : [])) };
    },
  };
}

describe('an instance is not well at once although most requests of the last minute succeeded, if the gateway', () => {
  it.each([
    ['fails', 500, 'gateway-server-error'],
    ['rejects every request', 403, 'gateway-rejections'],
  ])('%s', async (_how, status, code) => {
    const { edge, found, passes } = await startWell();
    edge.gateway.respond = (response) => void response.writeHead(status).end();
    for (let count = 0; count < 5; count += 1) await edge.balance();
    expect(await found()).toMatchObject({ well: false, bad: expect.arrayContaining([code]) });
    edge.gateway.respond = (response) => void response.end('OK');
    passes(4);
    await edge.balance();
    expect((await found()).bad).not.toContain(code);
  });

  it('does not respond, before the requests time out', async () => {
    const { edge, found, passes } = await startWell();
    const waiting: (() => void)[] = [];
    edge.gateway.respond = (response) => void waiting.push(() => void response.end('OK'));
    const pending = [edge.balance(), edge.balance()];
    await until(() => waiting.length === 2);
    expect(await found()).toEqual({ well: true, bad: [] });
    passes(4);
    expect(await found()).toEqual({ well: false, bad: ['gateway-silent'] });
    for (const respond of waiting) respond();
    await Promise.all(pending);
    expect(await found()).toEqual({ well: true, bad: [] });
  });
});
