import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
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
