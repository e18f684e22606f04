import { writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import type { PrometheusServer } from '../test/support/prometheus-server.ts';
import { dashboards } from './dashboards/dashboards.ts';
import type { DashboardModel } from './dashboards/model.ts';
import { type RecordedQuery, type Recording, recordingFile, type Series } from './pictures/recorded.ts';
import { openCluster, type RecordingCluster } from './recording/cluster.ts';
import { cutTransfer, sendTraffic } from './recording/traffic.ts';

/** Seconds. */
const length = 480;
const step = 4;
const warmUp = 40;
const rateInterval = '20s';
/** Requests per second. */
const rate = 20;

interface Event {
  readonly at: number;
  readonly what: string;
  readonly apply: (cluster: RecordingCluster) => unknown;
}

/** Seconds from the start of the recording. */
const story: readonly Event[] = [
  {
    at: 60,
    what: 'acme gets a new 4096-bit RSA key that is not registered at the gateway yet',
    apply: (cluster) => cluster.putKey('acme', 'rsa-4096'),
  },
  {
    at: 90,
    what: 'clients with TLS 1.2 read the admin port, one of them without an accepted cipher suite',
    apply: async ({ handshake }) => {
      for (const ciphers of ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES128-SHA'])
        await handshake({ maxVersion: 'TLSv1.2', ciphers });
    },
  },
  {
    at: 150,
    what: 'the gateway accepts the new key and rejects the old one',
    apply: (cluster) => cluster.gatewayAccepts('acme', 'rsa-4096'),
  },
  {
    at: 220,
    what: 'Vault outage begins',
    apply: ({ vault }) => vault.fail({ kind: 'status', status: 503 }),
  },
  { at: 280, what: 'Vault outage ends', apply: ({ vault }) => vault.heal() },
  {
    at: 290,
    what: 'the policy of Vault denies reading keys',
    apply: ({ vault }) => vault.fail({ kind: 'status', status: 403 }, /secret\/data/),
  },
  { at: 310, what: 'the policy permits it again', apply: ({ vault }) => vault.heal() },
  {
    at: 320,
    what: 'the gateway is slow, some responses are 500, one transfer is cut off',
    apply: (cluster) => {
      cluster.conditions.failing = true;
      return cutTransfer(cluster);
    },
  },
  {
    at: 370,
    what: 'the gateway is healthy, but its clock is 90 s ahead',
    apply: ({ conditions }) => Object.assign(conditions, { failing: false, clockAhead: 90 }),
  },
  {
    at: 420,
    what: 'the clock is correct, but the gateway rejects the key of beta',
    apply: (cluster) => {
      cluster.conditions.clockAhead = 0;
      cluster.gatewayAccepts('beta');
    },
  },
  { at: 450, what: 'everything is healthy', apply: (cluster) => cluster.gatewayAccepts('beta', 'transit') },
];

const matrix = z.object({
  resultType: z.literal('matrix'),
  result: z.array(
    z.object({
      metric: z.record(z.string(), z.string()),
      values: z.array(z.tuple([z.number(), z.string()])),
    }),
  ),
});

type Span = Pick<Recording, 'start' | 'step' | 'steps'>;

async function play(cluster: RecordingCluster): Promise<Span> {
  const over = new AbortController();
  const traffic = sendTraffic(cluster, rate, over.signal);
  await wait(warmUp * 1000);
  const start = Math.ceil(Date.now() / 1000);
  for (const { at, what, apply } of story) {
    await wait((start + at) * 1000 - Date.now());
    process.stdout.write(`${at} s: ${what}\n`);
    await apply(cluster);
  }
  await wait((start + length) * 1000 - Date.now());
  over.abort();
  await traffic;
  return { start, step, steps: length / step + 1 };
}

async function recordingOf(model: DashboardModel, prometheus: PrometheusServer, span: Span) {
  const panels: Record<string, RecordedQuery[]> = {};
  for (const { title, queries } of model.sections.flatMap((section) => section.panels)) {
    panels[title] = await Promise.all(
      Object.values(queries).map(async (expr) => ({ expr, series: await seriesOf(expr, prometheus, span) })),
    );
  }
  return { ...span, rateInterval, events: story.map(({ at, what }) => ({ at, what })), panels };
}

async function seriesOf(expr: string, prometheus: PrometheusServer, span: Span): Promise<Series[]> {
  const query = expr
    .replaceAll(/\$environment|\$operation/g, '.+')
    .replaceAll(/\$namespace|\$release/g, '.*')
    .replaceAll('$__rate_interval', rateInterval)
    .replaceAll('$__range', `${length}s`);
  const end = span.start + (span.steps - 1) * span.step;
  const parameters = new URLSearchParams({
    query,
    start: `${span.start}`,
    end: `${end}`,
    step: `${span.step}`,
  });
  const { result } = matrix.parse(await prometheus.api(`query_range?${parameters.toString()}`));
  return result.map(({ metric, values }) => ({ labels: metric, values: onSteps(values, span) }));
}

/** One value per step, rounded to four digits; `null` where Prometheus has none, because JSON has no NaN. */
function onSteps(values: readonly (readonly [number, string])[], { start, step, steps }: Span) {
  const known = new Map(values.map(([time, text]) => [Math.round((time - start) / step), Number(text)]));
  return Array.from({ length: steps }, (_, at) => {
    const value = known.get(at) ?? Number.NaN;
    return Number.isFinite(value) ? Number(value.toPrecision(4)) : null;
  });
}

// Run when queries of dashboards have changed. Takes nine minutes and needs Prometheus (Debian package prometheus).
// scripts/draw-dashboards.ts draws the pictures from the recording.
const stops: (() => Promise<unknown>)[] = [];
try {
  const cluster = await openCluster(stops);
  const span = await play(cluster);
  for (const [file, model] of Object.entries(dashboards)) {
    const recording = await recordingOf(model, cluster.prometheus, span);
    const target = new URL(`../deploy/grafana/pictures/${recordingFile(file)}`, import.meta.url);
    writeFileSync(target, `${JSON.stringify(recording)}\n`);
  }
} finally {
  for (const stop of stops.toReversed()) await stop();
}
