import { expect, it } from '@jest/globals';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { formRequest, type RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { balance } = paths;
const starts = harness();

it('connections beyond maxConnections are closed without a response and counted, until another one ends', async () => {
  const edge = await starts.edge({ config: { proxy: { port: 0, maxConnections: 2 } } });
  const statusOver = async (connection: RawConnection): Promise<number> =>
    (await connection.send(formRequest(balance)).response()).status;
  const first = await edge.connect();
  const second = await edge.connect();
  expect([await statusOver(first), await statusOver(second)]).toEqual([200, 200]);
  expect(await (await edge.connect()).ended()).toBe('FIN');
  expect(await edge.metrics()).toMatch(/^countersign_connections_dropped_total 1$/m);
  expect(await statusOver(first)).toBe(200);
  second.close();
  await until(async () => (await statusOver(await edge.connect()).catch(() => undefined)) === 200);
});
