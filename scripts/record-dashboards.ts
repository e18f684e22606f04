import { writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import type { PrometheusServer } from '../test/support/prometheus-server.ts';
import { dashboards } from './dashboards/dashboards.ts';
import type { DashboardModel } from './dashboards/model.ts';
import { type RecordedQuery, type Recording, recordingFile, type Series } from './pictures/recorded.ts';
import { openSite, type RecordingSite } from './recording/cluster.ts';
import { cutTransfer, sendTraffic } from './recording/traffic.ts';

/** Seconds. */
const length = 480;
const step = 4;
const warmUp = 40;
const rateInterval = '20s';
/** Requests a second. */
const rate = 20;

interface Event {
  readonly at: number;
  readonly what: string;
  readonly bring: (site: RecordingSite) => unknown;
}

/** Seconds from the start of the recording. */
const story: readonly Event[] = [
  {
    at: 60,
    what: 'acme gets a new RSA key, of 4096 bits; the gateway does not know it yet',
    bring: (site) => site.putKey('acme', 'rsa-4096'),
  },
  {
    at: 150,
    what: 'the gateway takes the new key and drops the old one',
    bring: (site) => site.gatewayAccepts('acme', 'rsa-4096'),
  },
  {
    at: 220,
    what: 'Vault does not answer',
    bring: ({ vault }) => vault.fail({ kind: 'status', status: 503 }),
  },
  { at: 280, what: 'Vault is back', bring: ({ vault }) => vault.heal() },
  {
    at: 320,
    what: 'the gateway is slow, some replies are 500, one transfer is cut off',
    bring: ({ weather, url }) => {
      weather.trouble = true;
      return cutTransfer(url);
    },
  },
  {
    at: 370,
    what: 'the gateway is well, but its clock is 90 s ahead',
    bring: ({ weather }) => Object.assign(weather, { trouble: false, clockAhead: 90 }),
  },
  {
    at: 420,
    what: 'its clock is right, and it does not know the key of beta any more',
    bring: (site) => {
      site.weather.clockAhead = 0;
      site.gatewayAccepts('beta');
    },
  },
  { at: 450, what: 'all is well', bring: (site) => site.gatewayAccepts('beta', 'rsa-2048') },
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

async function play(site: RecordingSite): Promise<Span> {
  const over = new AbortController();
  const traffic = sendTraffic(site.url, rate, over.signal);
  await wait(warmUp * 1000);
  const start = Math.ceil(Date.now() / 1000);
  for (const { at, what, bring } of story) {
    await wait((start + at) * 1000 - Date.now());
    process.stdout.write(`${at} s: ${what}\n`);
    await bring(site);
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
      queries.map(async ({ expr }) => ({ expr, series: await seriesOf(expr, prometheus, span) })),
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
  const asked = new URLSearchParams({ query, start: `${span.start}`, end: `${end}`, step: `${span.step}` });
  const { result } = matrix.parse(await prometheus.api(`query_range?${asked.toString()}`));
  return result.map(({ metric, values }) => ({ labels: metric, values: onSteps(values, span) }));
}

/** One value a step, of four digits; Prometheus leaves out the steps without one, and JSON has no NaN. */
function onSteps(values: readonly (readonly [number, string])[], { start, step, steps }: Span) {
  const known = new Map(values.map(([time, text]) => [Math.round((time - start) / step), Number(text)]));
  return Array.from({ length: steps }, (_, at) => {
    const value = known.get(at) ?? Number.NaN;
    return Number.isFinite(value) ? Number(value.toPrecision(4)) : null;
  });
}

// node scripts/record-dashboards.ts, once dashboards have changed: takes nine minutes and needs Prometheus (Debian
// package prometheus). scripts/draw-dashboards.ts makes the pictures from what it writes.
const stops: (() => Promise<unknown>)[] = [];
try {
  const site = await openSite(stops);
  const span = await play(site);
  for (const [file, model] of Object.entries(dashboards)) {
    const recording = await recordingOf(model, site.prometheus, span);
    const target = new URL(`../deploy/grafana/pictures/${recordingFile(file)}`, import.meta.url);
    writeFileSync(target, `${JSON.stringify(recording)}\n`);
  }
} finally {
  for (const stop of stops.toReversed()) await stop();
}
