import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import type { CountersignProcess } from '../support/process.ts';
import { RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { balance } = paths;

const starts = harness();
let edge: Edge;
let held: RawConnection[];

beforeEach(async () => {
  held = [];
  edge = await starts.edge();
});
afterEach(() => {
  for (const connection of held) connection.close();
});

const statusOf = async (path: string): Promise<number> =>
  (await fetch(`${edge.adminUrl}${path}`, { signal: AbortSignal.timeout(2_000) })).status;

describe('400 connections to the admin port with incomplete headers', () => {
  it('leave at most admin.maxConnections open, until the header timeout; probes, scrapes and payments are served', async () => {
    const opened = Array.from({ length: 400 }, () => RawConnection.open(edge.adminUrl));
    held.push(...(await Promise.all(opened)));
    // With or without a response.
    let closed = 0;
    for (const connection of held) {
      connection.send('GET /healthz HTTP/1.1\r\nHost: x\r\n');
      const count = (): void => void (closed += 1);
      void connection.ended().then(count, count);
    }
    await until(() => closed >= 300, 'most are closed', 3);
    expect(await statusOf('/healthz')).toBe(200);
    expect(await statusOf('/metrics')).toBe(200);
    expect(await nextIsServed(await edge.connect())).toBe(true);
    expect((await fetch(`${edge.url}${balance}`, { method: 'POST' })).status).toBe(200);
    await until(() => closed === 400, 'all are closed', 8);
  }, 15_000);
});

describe('with a thousand logins', () => {
  const logins = Array.from({ length: 1_000 }, (_, index) => `merchant-${index}`);
  let process: CountersignProcess;

  beforeEach(async () => {
    process = await starts.process({
      gateway: edge.gateway.url,
      keys: Object.fromEntries(logins.map((login) => [login, { controlKey: login }])),
      config: { proxy: { port: 0, timeouts: { shutdownDelay: '0s' } } },
    });
    for (const login of logins) {
      expect((await process.post(`/sandbox/gw/api/v2/get-balance/manager/${login}`)).status).toBe(200);
    }
  }, 60_000);

  it('99 readers who do not read share their pages, and the memory does not grow by a copy for each', async () => {
    let size = 0;
    // The heap grows to what renderings need, whoever reads them. There is one a second.
    for (let rendering = 0; rendering < 8; rendering += 1) size = (await process.metrics()).length;
    const before = residentBytes(process);
    for (let reader = 0; reader < 99; reader += 1) {
      const connection = await RawConnection.open(process.adminUrl);
      held.push(connection.pause());
      // The first pages are in the buffers of the kernel; Node keeps the one after them.
      connection.send(`GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(16));
      // Spread over several renderings.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const grown = residentBytes(process) - before;
    expect({ size, grown, copies: 99 * size, inBounds: grown < 40 * size }).toMatchObject({ inBounds: true });
    expect((await process.balance()).status).not.toBe(500);
  }, 60_000);
});

/** Memory of a process that is not swapped out. */
function residentBytes({ child }: CountersignProcess): number {
  const [, pages] = readFileSync(`/proc/${child.pid}/statm`, 'utf8').split(' ');
  return Number(pages) * 4_096;
}
