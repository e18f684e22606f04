import { Agent } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { texts } from '../support/client-inputs.ts';
import { post, transferForm } from '../support/forwarding.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';
import { type Attack, oversizedLogin } from './target.ts';

/** Ways to attack for callers: `greedy` has everything and `maxInFlight: 2`, `stranger` a grant that it does not use. */

const transfer = '/sandbox/gw/api/v4/transfer/1000';
const greedy = { Authorization: 'Bearer greedy' };

/** The shape that started it: normalization sorts a run of marks. */
export const marks = 'combining marks';

/** A form of about so many bytes, of this text as a name or a value. */
export function formOf(shape: string, bytes: number, asName: boolean): string {
  const text = texts[shape]?.(bytes) ?? '';
  return Buffer.from(asName ? `${text}=1` : `client_orderid=1&a=${text}`).toString();
}

/** Forms with names and values that take long to look at. */
export const names: Attack = async ({ url }, random, tally) => {
  await tally.repeat(4, async (index) => {
    const shape = index < 2 ? marks : random.pick(Object.keys(texts));
    const bytes = random.pick([16_384, 32_768, 65_000]);
    const { status } = await post(`${url}${transfer}`, formOf(shape, bytes, random.chance(0.6)), greedy);
    tally.add(status);
  });
};

/** Forms that come byte by byte, and never whole. */
export const slowBodies: Attack = async ({ url }, random, tally) => {
  await tally.repeat(1_500, async () => {
    const connection = await RawConnection.open(url);
    const form = formRequest(transfer, `client_orderid=${'x'.repeat(65_000)}`, [
      'Authorization: Bearer greedy',
    ]);
    connection.send(form.slice(0, -random.int(10, 100)));
    tally.add('slow body');
    for (let count = 0; count < 10 && connection.ending === undefined; count += 1) {
      await wait(random.int(500, 1_000));
      connection.send('x');
    }
    const response = await connection.responseOrEnd(10);
    tally.add(typeof response === 'string' ? response : response.status);
    connection.close();
    await wait(1_000);
  });
};

/** Requests that are all denied, as fast as possible: each may be recorded. */
export const denials: Attack = async ({ url }, _random, tally) => {
  const agent = new Agent({ keepAlive: true });
  await tally.repeat(16, async () => {
    const { status } = await post(
      `${url}${transfer}`,
      transferForm,
      { Authorization: 'Bearer stranger' },
      { agent },
    );
    tally.add(status);
  });
};

/** Requests for one login, whose secret is too large. */
export const oversizedSecret: Attack = async ({ url }, _random, tally) => {
  const path = `${url}/sandbox/gw/api/v2/get-balance/manager/${oversizedLogin}`;
  await tally.repeat(4, async () => {
    const { status } = await post(path, '', greedy);
    tally.add(status);
    await wait(20);
  });
};

/** Nothing: the attack is in the trail at the start. */
export const afterJunk: Attack = (_target, _random, tally) => {
  tally.add('started');
  return wait(2 ** 30);
};
