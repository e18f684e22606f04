import { ChildProcess, execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { measure } from '../bench/measure.ts';
import { balance, hasNginx, post } from '../bench/proxies.ts';
import { report } from '../bench/report.ts';
import type { Round } from '../bench/round.ts';
import { startUpstream, type Upstream } from '../bench/upstream.ts';
import { verifyWay, type Way } from '../bench/ways.ts';
import { portOf } from '../support/listening.ts';
import { describeWith } from '../support/requires.ts';

const run = (...options: string[]) =>
  promisify(execFile)('npm', ['run', '--silent', 'bench', '--', ...options]);

/** The rows of a Markdown table, by their first cell. */
function rowsOf(markdown: string): Map<string, string[]> {
  const lines = markdown.split('\n').filter((line) => line.startsWith('| '));
  return new Map(
    lines.map((line) => line.slice(2, -2).split(' | ')).map(([first = '', ...rest]) => [first, rest]),
  );
}

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const straight = (signature: Way['signature']): Way => ({
  name: 'straight',
  signature,
  url: upstream.url + balance.path,
  body: balance.body,
});

describeWith('wrk')('npm run bench (needs the program wrk)', () => {
  it('measures every way that the machine has', async () => {
    const { stdout } = await run('--quick');
    const ways = new Map([
      ['http-proxy-middleware, unsigned', 'none'],
      ['naive app, HMAC', 'HMAC-SHA1'],
    ]);
    for (const name of hasNginx ? ['Countersign', 'nginx + njs'] : ['Countersign']) {
      ways.set(`${name}, HMAC`, 'HMAC-SHA1');
      ways.set(`${name}, RSA 2048`, 'RSA-SHA256').set(`${name}, RSA 4096`, 'RSA-SHA256');
    }
    for (const [way, method] of ways) expect(stdout).toContain(`${way}: verified ${method}\n`);
    const rows = rowsOf(stdout);
    for (const way of ways.keys()) {
      const [rate, cpu, ratio, each] = rows.get(way) ?? [];
      // On a busy machine nginx makes no RSA signature in a second.
      const shape = way.startsWith('nginx + njs, RSA') ? /^([\d,.]+|-)$/ : /^(?=.*[1-9])[\d,.]+$/;
      expect([rate, cpu, ratio, each]).toEqual(Array(4).fill(expect.stringMatching(shape)));
    }
    expect(rows.get('Countersign, HMAC beside RSA 4096')?.[8]).toMatch(/^[\d.,]+, [\d.,]+$/);
  }, 300_000);

  it('keeps to the rate', async () => {
    const { rate } = await measure(straight('unsigned'), { seconds: 2, connections: 50, rate: 200 });
    expect(rate).toBeGreaterThan(120);
    expect(rate).toBeLessThan(250);
  });

  it('gives no figures of failed requests', async () => {
    const overloaded = createServer((_, response) => void response.writeHead(503).end());
    await once(overloaded.listen(0, '127.0.0.1'), 'listening');
    const way = { ...straight('unsigned'), url: `http://127.0.0.1:${portOf(overloaded)}` };
    await expect(measure(way, { seconds: 1, connections: 1 })).rejects.toThrow(
      /\d+ of \d+ requests .* failed/,
    );
    overloaded.close();
  });
});

describe('the benchmark', () => {
  it('verifies what the upstream received', async () => {
    await verifyWay(straight('unsigned'), upstream);
    for (const signature of ['HMAC', 2048] as const) {
      await expect(verifyWay(straight(signature), upstream)).rejects.toThrow(
        'Authorization header is missing',
      );
    }
    const elsewhere = await startUpstream();
    await post(elsewhere.url + balance.path, 'of=another+request');
    await expect(verifyWay(straight('unsigned'), elsewhere)).rejects.toThrow('did not receive');
    await elsewhere.stop();
  });

  it('reports the medians of the rounds, and the ratios of each', () => {
    const text = report([roundOf(1000, 400), roundOf(2000, 300), roundOf(1250, 500)], 5);
    const rows = rowsOf(text);
    const [rate, ...cpu] = rows.get('Countersign, HMAC') ?? [];
    expect(rate).toBe('1,000');
    expect(cpu.slice(0, 3)).toEqual(['200', '1.6', '1.6 1.2 2']);
    expect(cpu.slice(3, 6)).toEqual(['400', '2', '2 1.5 2.5']);
    expect(cpu.slice(6, 9)).toEqual(['1, 2', '1, 2', '2.5']);
    expect(rows.get('Countersign, RSA 4096')?.slice(2, 7)).toEqual(['0.8', '1 0.5 0.8', '-', '-', '- - -']);
    expect(rows.get('straight')?.slice(2, 7)).toEqual(['-', '- - -', '-', '-', '- - -']);
    expect(text).toContain('used 10 %, 20 %, 13 % of the CPU');
    expect(text).toContain('\n1,250/s with RSA 4096 (in each round: 1,000 2,000 1,250).\n');
    expect(rowsOf(report([roundOf(1000, 400), roundOf(2000, 300)], 5)).get('Countersign, HMAC')?.[5]).toBe(
      '1.75',
    );
  });

  it('rejects unknown options', async () => {
    await expect(run('--quickly')).rejects.toMatchObject({ stderr: expect.stringContaining("'--quickly'") });
  });
});

/** A round in which the machine signed so many, and Countersign took so many µs to the 200 of the naive app. */
function roundOf(signed: number, cpu: number): Round {
  const figures = { requests: 5000, rate: 1000, p50: 1, p99: 2, memory: 100 };
  const proxy = { url: '', child: new ChildProcess(), startTime: 0.5, idleMemory: 80, stop: () => {} };
  const way = (name: string, signature: Way['signature']): Way => ({ ...straight(signature), name, proxy });
  const beside = (naiveCpu: number, wayCpu: number) => {
    const comparison = { naive: { ...figures, cpu: naiveCpu }, way: { ...figures, cpu: wayCpu, p99: 5 } };
    const paced = { ...comparison, naive: { ...figures, cpu: 200 } };
    return { paced: { ...figures, cpu: wayCpu }, beside: { full: comparison, paced } };
  };
  const rows = [
    { way: straight('unsigned'), ...figures, cpu: 0, paced: { ...figures, cpu: 0 } },
    { way: way('naive app, HMAC', 'HMAC'), ...figures, cpu: 100, ...beside(200, 200) },
    { way: way('Countersign, HMAC', 'HMAC'), ...figures, cpu: cpu / 2, ...beside(250, cpu) },
    { way: way('Countersign, RSA 4096', 4096), ...figures, cpu: 2000, signing: signed },
  ];
  return { rows, disturbance: signed / 10_000 };
}
