import { expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { testKeys } from '../support/service.ts';

const starts = harness();

/** An instance with three logins that the gateway accepts, on clocks that the test moves. */
async function startCalm() {
  let later = 0;
  const clock = () => Date.now() + later;
  const edge = await starts.edge({
    clock,
    monotonic: () => performance.now() + later,
    keys: { acme: testKeys, beta: testKeys, gamma: testKeys },
  });
  const passes = (seconds: number): void => void (later += seconds * 1000);
  /** @param ahead seconds that the clock of the gateway is ahead */
  const respondWith = (status: number, ahead = 0): void => {
    edge.gateway.respond = (response) => {
      const date = new Date(clock() + ahead * 1000).toUTCString();
      response.writeHead(status, { Date: date, 'Content-Type': 'application/json' }).end('[]');
    };
  };
  const query = async (...logins: string[]) => {
    for (const login of logins) await edge.post(`/sandbox/gw/api/v2/get-balance/manager/${login}`);
  };
  /** Later than the page that is kept for all readers of a second. */
  const status = () => {
    passes(1);
    return edge.instanceStatus();
  };
  respondWith(200);
  await query('acme', 'beta', 'gamma');
  // A rejection just after an acceptance says nothing about the key.
  passes(11);
  return {
    status,
    query,
    passes,
    accept: () => respondWith(200),
    reject: (ahead = 0) => respondWith(403, ahead),
    codes: async () => (await status()).findings.map(({ code }) => code),
    skew: async () => (await status()).environments[0]?.clockSkew,
  };
}

it.each([
  ['a gateway that blocked every login', 0, ['acme', 'beta', 'gamma'], 'gateway-blocks'],
  ['a clock that was off', 3_600, ['acme'], 'clock-skew'],
])(
  'no finding advises on a key because of %s: neither meanwhile, nor afterwards, nor in silence',
  async (_, ahead, logins, code) => {
    const { status, codes, skew, query, passes, reject, accept } = await startCalm();
    reject(ahead);
    await query(...logins);
    if (ahead > 0) expect(await skew()).toBeGreaterThan(ahead - 100);
    expect(await codes()).toEqual([code]);
    expect((await status()).environments[0]?.failures).toMatchObject([{ cause: 'rejected' }]);
    accept();
    await query('gamma');
    expect(await skew()).toBe(0);
    expect(await codes()).toEqual([]);
    passes(61);
    expect(await skew()).toBeNull();
    expect(await codes()).toEqual([]);
  },
);

it('a key that the gateway rejects is found until it accepts it, also in silence and after an incident', async () => {
  const { status, codes, query, passes, reject, accept } = await startCalm();
  reject(3_600);
  await query('acme', 'beta');
  accept();
  await query('beta', 'gamma');
  passes(11);
  reject();
  await query('acme');
  expect(await codes()).toEqual(expect.arrayContaining(['key-rejected', 'gateway-rejections']));
  passes(61);
  expect(await codes()).toEqual(['key-rejected']);
  const { keys } = await status();
  expect(keys.list.find(({ login }) => login === 'acme')?.versions).toMatchObject([{ state: 'rejected' }]);
  accept();
  await query('acme');
  expect(await codes()).toEqual([]);
});
