import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import {
  assumed,
  between,
  computed,
  limits,
  type Measured,
  readMeasured,
  replicasFor,
  seriesOf,
  sites,
  sizingTable,
  withMeasured,
} from '../../deploy/capacity.ts';
import { dashboards } from '../../deploy/grafana/dashboards.ts';
import { configShape } from '../../src/config/shape.ts';
import { createPrometheus, type Prometheus } from '../../src/ops/prometheus.ts';
import { Secret } from '../../src/secret.ts';
import { samples } from '../support/exposition.ts';
import { vectorText } from '../support/vectors.ts';

const page = readFileSync('deploy/capacity.md', 'utf8');
const config = configShape.parse({
  environments: { production: { baseUrl: 'https://gateway.example', product: 'gw' } },
  keys: { source: 'directory', directory: '/keys' },
});

describe('the capacity page', () => {
  it('has the tables that follow from what was measured (node deploy/capacity-update.ts writes them)', () => {
    expect(computed(page)).toBe(page);
  });

  it('says on which machine and when it was measured', () => {
    expect(page).toMatch(/^Measured on \d{4}-\d\d-\d\d: \d+ cores .*Node \d+\./m);
  });

  it('sizes 100, 1,000, 10,000 and 100,000 requests a second, and says what breaks first at each', () => {
    const rates = ['100', '1,000', '10,000', '100,000'];
    expect(sizingTable(readMeasured(page)).split('\n')[0]).toBe(`| requests/s | ${rates.join(' | ')} |`);
    for (const rate of rates) expect(page).toMatch(new RegExp(`^\\| ${rate} \\| .+ \\| .+ \\| .+ \\|$`, 'm'));
  });

  it('names sections of the runbook and panels that there are', () => {
    const sections = [...readFileSync('deploy/runbook.md', 'utf8').matchAll(/^## (\w+)$/gm)];
    const known = sections.map(([, name = '']) => `[${name}](runbook.md#${name.toLowerCase()})`);
    const links = page.match(/\[\w+\]\([^)]*\)/g) ?? [];
    expect(links.length).toBeGreaterThan(5);
    for (const link of links) expect(known).toContain(link);
    const panels = Object.values(dashboards).flatMap(({ sections: all }) => all.flatMap((one) => one.panels));
    const titles = panels.map(({ title }) => title);
    const named = [...page.matchAll(/(?<!\*)\*([A-Z][\w ]+)\*(?!\*)/g)].map(([, title = '']) => title);
    expect(named.length).toBeGreaterThan(3);
    for (const title of named) expect(titles).toContain(title);
  });

  it('assumes what the configuration has unless told otherwise', () => {
    const { maxInFlight } = config.environments['production'] ?? {};
    expect({ ...config.signing, maxInFlight }).toEqual({
      concurrency: assumed.signingConcurrency,
      queue: 200,
      maxInFlight: assumed.maxInFlight,
    });
    expect(assumed.fresh).toBe((config.keys.cache.fresh / 1000) * 0.95);
    expect(config.keys.cache.entries).toBe(sites.at(-1)?.logins);
    expect(page).toContain('`signing.concurrency` (3)');
    expect(page).toContain('`signing.queue` (200)');
    expect(page).toContain('`keys.cache.entries` (10,000)');
    expect(config.proxy.maxBufferedBytes).toBe(64 * 1_048_576);
    expect(page.match(/`proxy\.maxBufferedBytes` \(64 MiB\)/g)).toHaveLength(2);
  });

  it('tells the limits of the chart', () => {
    const chart = z.object({
      autoscaling: z.object({ maxReplicas: z.literal(10) }),
      resources: z.object({ limits: z.strictObject({ memory: z.literal('384Mi') }) }),
    });
    chart.parse(parse(readFileSync('helm/countersign/values.yaml', 'utf8')));
    expect(page).toContain('`maxReplicas` above the number here (it is 10 unless you say otherwise)');
    expect(page).toContain('`resources.limits.memory` (384Mi)');
  });
});

describe('the sizing', () => {
  /** Round numbers, so that a person can follow. */
  const measured: Measured = {
    hmac: 0.5,
    rsa2048: 1,
    signature2048: 0.5,
    rsa4096: 2.5,
    signature4096: 2,
    handshake: 1,
    logLine: 500,
    login: 10,
  };
  const row = (name: string): string[] => {
    const line = sizingTable(measured)
      .split('\n')
      .find((text) => text.startsWith(`| ${name} |`));
    return (
      line
        ?.split('|')
        .slice(2, -1)
        .map((cell) => cell.trim()) ?? []
    );
  };

  it('has one event loop, three signing threads and 500 exchanges of 0.3 s in an instance', () => {
    const { loop, signing, inFlight } = limits(measured, 4096);
    // 0.4 * 0.5 ms + 0.6 * 0.5 ms + 0.1 * 1 ms
    expect(loop).toBeCloseTo(1000 / 0.6, 6);
    // 3 threads, 0.6 * 2 ms
    expect(signing).toBeCloseTo(3000 / 1.2, 6);
    expect(inFlight).toBeCloseTo(500 / 0.3, 6);
  });

  it('asks of an instance half of its smallest limit, and never has fewer than two', () => {
    expect(replicasFor(1, measured, 4096)).toBe(2);
    expect(replicasFor(10_000, measured, 4096)).toBe(12);
    const slowToSign = { ...measured, rsa4096: 20.5, signature4096: 20 };
    expect(replicasFor(10_000, slowToSign, 4096)).toBe(80);
  });

  it.each([
    ['replicas, RSA with 4096 bits', ['2', '2', '12', '120']],
    ['cores busy, all replicas', ['0.18', '1.8', '18', '180']],
    ['CPU request of a pod, cores', ['0.18', '1.8', '3', '3']],
    ['memory of the keys in a pod, MB', ['0.5', '5', '20', '100']],
    // 2 * 50 / 57, 2 * 500 / 57, 12 * 2000 / 57, 120 * 10,000 / 57
    ['Vault reads/s', ['1.8', '17.5', '421', '21,053']],
    ['gateway connections for reads', ['27', '270', '2,700', '27,000']],
    ['gateway connections for payments', ['3', '30', '300', '3,000']],
    ['TLS handshakes/s with the gateway', ['10', '100', '1,000', '10,000']],
    // 10,000 payments/s * 60 s / 28,232 ports
    ['source addresses for payments, at least', ['1', '1', '3', '22']],
    ['log, GB a day', ['4.3', '43.2', '432', '4,320']],
  ])('computes %s', (name, cells) => {
    expect(row(name)).toEqual(cells);
  });

  it('reads again from the page what it wrote', () => {
    expect(readMeasured(computed(withMeasured(page, measured)))).toEqual(measured);
  });

  it('is refused where the page lacks a value or a place', () => {
    expect(() => readMeasured(page.replace(/^\| log line of .*$/m, ''))).toThrow(/log line/);
    expect(() => between(page, 'nothing', '')).toThrow(/nothing/);
  });
});

describe('the series of an instance', () => {
  const count = async (metrics: Prometheus) => samples((await metrics.page(false)).body).size;
  const operations = [
    'manager-balance',
    'order-status',
    'order-status-group',
    'pan-eligibility-send',
    'transfer',
  ];
  const metricsOf = (environments: readonly string[], callers: readonly string[] = []) => {
    const about = environments.map((name) => [name, { operations, maxInFlight: 500 }] as const);
    return createPrometheus({ version: '1', environments: Object.fromEntries(about), callers });
  };
  const more = async (metrics: Prometheus, what: () => void) => {
    const before = await count(metrics);
    what();
    return (await count(metrics)) - before;
  };

  it('are about as many as the page says, before the first request', async () => {
    const one = await count(metricsOf(['production']));
    const two = await count(metricsOf(['production', 'sandbox']));
    expect(Math.abs(one - assumed.series.start)).toBeLessThan(25);
    expect(Math.abs(two - one - 145)).toBeLessThan(25);
    expect(page).toContain('A\n  further environment adds about 145.');
  });

  it('grow by each caller', async () => {
    const [none, some] = [metricsOf(['production']), metricsOf(['production'], ['billing', 'payouts'])];
    const [decisionsOfNone, decisions] = await Promise.all([none, some].map(decisionSeries));
    expect((decisions ?? 0) - (decisionsOfNone ?? 0)).toBe(2 * assumed.series.caller);
  });

  it('grow by each operation in use and each combination', async () => {
    const metrics = metricsOf(['production'], ['billing']);
    const route = { environment: 'production', operation: 'order-status' };
    const grown = await more(metrics, () => {
      metrics.gatewayReplied({ ...route, status: 200, seconds: 0.1 });
      metrics.exchangeEnded({
        id: '1',
        startedAt: 0,
        ...route,
        caller: 'billing',
        status: 200,
        outcome: 'answered',
        attempts: 1,
        durations: { total: 0.1 },
      });
    });
    expect(grown).toBe(assumed.series.operation + assumed.series.combination);
  });

  it('grow by each login, up to so many', async () => {
    const metrics = metricsOf(['production']);
    const about = { version: 1, createdAt: new Date() };
    const privateKey = createPrivateKey(vectorText('keys/rsa-2048-pkcs8.pem'));
    const learn = (from: number, to: number) => () => {
      for (let index = from; index < to; index += 1) {
        metrics.ringChanged({ environment: 'production', login: `merchant-${index}` }, [
          { kind: 'control_key', ...about, key: { kind: 'control_key', secret: new Secret('some') } },
          { kind: 'private_key', ...about, key: { kind: 'private_key', privateKey } },
        ]);
      }
    };
    const { login, logins } = assumed.series;
    expect(await more(metrics, learn(0, 10))).toBe(10 * login);
    await more(metrics, learn(10, logins));
    expect(await more(metrics, learn(logins, logins + 50))).toBe(0);
    expect(seriesOf(logins + 50)).toBe(seriesOf(logins));
    expect(seriesOf(10) - seriesOf(0)).toBe(10 * login);
  });

  async function decisionSeries(metrics: Prometheus): Promise<number> {
    const names = [...samples((await metrics.page(false)).body).keys()];
    return names.filter((name) => name.startsWith('countersign_policy_decisions_total')).length;
  }
});
