import { expect, it } from '@jest/globals';
import { balance, startEdge } from '../support/edge.ts';
import { until } from '../support/forwarding.ts';
import { formRequest, RawConnection } from '../support/raw-http.ts';

it('connections beyond maxConnections are closed without a response and counted, until another one ends', async () => {
  const edge = await startEdge({ config: { proxy: { port: 0, maxConnections: 2 } } });
  const open = (): Promise<RawConnection> => RawConnection.open(edge.proxy.url);
  const statusOver = async (connection: RawConnection): Promise<number> =>
    (await connection.send(formRequest(balance)).answer()).status;
  try {
    const first = await open();
    const second = await open();
    expect([await statusOver(first), await statusOver(second)]).toEqual([200, 200]);
    expect(await (await open()).ended()).toBe('FIN');
    expect(await edge.proxy.metrics()).toMatch(/^countersign_connections_dropped_total 1$/m);
    expect(await statusOver(first)).toBe(200);
    second.close();
    await until(async () => (await statusOver(await open()).catch(() => undefined)) === 200);
  } finally {
    await edge.stop();
  }
});
