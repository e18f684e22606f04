import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import type { CountersignProcess } from '../support/process.ts';
import { RawConnection } from '../support/raw-http.ts';

const { balance } = paths;

const halfHead = 'GET /healthz HTTP/1.1\r\nHost: x\r\n';
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

async function hold(count: number): Promise<void> {
  const opened = Array.from({ length: count }, () => RawConnection.open(edge.adminUrl));
  held.push(...(await Promise.all(opened)));
  for (const connection of held) connection.send(halfHead);
}

/** The number of held connections that the server has closed by then, with or without a response. */
async function closedAfter(milliseconds: number): Promise<number> {
  let count = 0;
  for (const connection of held) {
    void connection
      .ended()
      .catch(() => 'after a response')
      .finally(() => {
        count += 1;
      });
  }
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  return count;
}

const statusOf = async (path: string): Promise<number> =>
  (await fetch(`${edge.adminUrl}${path}`, { signal: AbortSignal.timeout(2_000) })).status;

describe('400 connections to the admin port with incomplete headers', () => {
  it('leave at most admin.maxConnections open; probes, scrapes and payments are served', async () => {
    await hold(400);
    expect(await closedAfter(2_500)).toBeGreaterThanOrEqual(300);
    expect(await statusOf('/healthz')).toBe(200);
    expect(await statusOf('/metrics')).toBe(200);
    expect(await nextIsServed(await edge.connect())).toBe(true);
    expect((await fetch(`${edge.url}${balance}`, { method: 'POST' })).status).toBe(200);
  });

  it('are all closed after the header timeout', async () => {
    await hold(400);
    expect(await closedAfter(8_000)).toBe(400);
  }, 15_000);
});

describe('the open file limit', () => {
  it.each([
    ['below', 1_000_000_000, 1],
    ['not below', 100, 0],
  ])(
    '%s the maximum number of connections: logs a warning only if too low',
    async (_, maxConnections, count) => {
      const process = await starts.process({ config: { proxy: { port: 0, maxConnections } } });
      const warnings = process
        .stdout()
        .split('\n')
        .filter((line) => line.includes('the open file limit is below'));
      expect(warnings).toHaveLength(count);
      for (const line of warnings) {
        expect(JSON.parse(line)).toMatchObject({
          level: 'warn',
          needed: 1_000_000_000 + 100 + 2 * 500 + 100,
        });
      }
    },
  );
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
