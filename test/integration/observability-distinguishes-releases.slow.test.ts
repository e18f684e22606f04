import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { harness } from '../support/harness.ts';
import { at, chart, helm } from '../support/helm.ts';
import { operatorScrape } from '../support/prometheus-operator.ts';
import { type PrometheusServer, startPrometheus } from '../support/prometheus-server.ts';
import { describeWith, itWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { until } from '../support/until.ts';

/** Installed side by side; the second one has other names. */
const releases = [
  { release: 'pay', namespace: 'payments', options: [] },
  { release: 'payouts', namespace: 'treasury', options: ['--set=nameOverride=signer'] },
] as const;

const starts = harness(afterAll);
const folder = starts.folder();
const proxies: TestProxy[] = [];
let prometheus: PrometheusServer;

/** The ServiceMonitor of a release and the Service that it selects. */
function monitored({ release, namespace, options }: (typeof releases)[number]) {
  const values = ['--values', join(chart, 'ci/default-values.yaml'), '--set=serviceMonitor.enabled=true'];
  const { stdout, stderr, status } = helm([
    'template',
    release,
    chart,
    `--namespace=${namespace}`,
    '--kube-version=1.34.0',
    ...values,
    ...options,
  ]);
  if (status !== 0) throw new Error(stderr);
  const objects = parseAllDocuments(stdout).map((document): unknown => document.toJS());
  const monitor = objects.find((object) => at(object, 'kind') === 'ServiceMonitor');
  const service = objects.find(
    (object) =>
      at(object, 'kind') === 'Service' &&
      at(object, 'metadata', 'labels', 'app.kubernetes.io/component') === 'admin',
  );
  // helm template does not set the namespace.
  const metadata = { ...z.record(z.string(), z.unknown()).parse(at(service, 'metadata')), namespace };
  return { monitor, service: { metadata } };
}

/** The rules, with `for` of one second. */
function rulesWithoutDelay(name: string): string {
  const text = readFileSync(join('deploy/prometheus', name), 'utf8');
  return folder.file(name, text.replaceAll(/^( +for: )\d+[mh]$/gm, '$11s'));
}

async function start(): Promise<void> {
  const gateway = await starts.simulator({ clock: () => Date.now() });
  const scrapes = [];
  for (const release of releases) {
    const proxy = await starts.proxy({ gateway: gateway.url });
    proxies.push(proxy);
    const { monitor, service } = monitored(release);
    scrapes.push(operatorScrape(monitor, service, new URL(proxy.adminUrl).host));
  }
  const rules = ['alerts.rules.yaml', 'objectives.rules.yaml'].map(rulesWithoutDelay);
  prometheus = starts.closing(await startPrometheus(scrapes, rules));
  await until(
    async () => (await prometheus.query('up == 1')).length === releases.length,
    'both are scraped',
    15,
  );
}

const alerts = z.object({
  alerts: z.array(
    z.object({
      state: z.string(),
      labels: z.record(z.string(), z.string()),
      annotations: z.record(z.string(), z.string()),
    }),
  ),
});
const whenHelm = itWith('helm');

describeWith('prometheus')(
  'two releases that one Prometheus scrapes with the ServiceMonitor of the chart',
  () => {
    beforeAll(async () => {
      if (whenHelm === it) await start();
    }, 60_000);

    whenHelm('have one job and different releases, whatever their nameOverride', async () => {
      const found = (await prometheus.query('up{job="countersign"}')).map(
        ({ metric: { namespace, release } }) => `${namespace}/${release}`,
      );
      expect(found.sort()).toEqual(releases.map(({ namespace, release }) => `${namespace}/${release}`));
    });

    whenHelm('have their own CountersignDown', async () => {
      const firing = async () =>
        alerts
          .parse(await prometheus.api('alerts'))
          .alerts.filter(
            ({ state, labels }) => state === 'firing' && labels['alertname'] === 'CountersignDown',
          );
      await until(async () => (await firing()).length === 0, 'both are scraped', 15);
      await Promise.all(proxies.map((proxy) => proxy.stop()));
      await until(async () => (await firing()).length === releases.length, 'both alerts fire', 15);
      const described = (await firing()).map(({ annotations }) => annotations['description'] ?? '');
      expect(described.map((text) => text.replace(/^.*(?=Release )/s, '')).sort()).toEqual([
        'Release pay in namespace payments.',
        'Release payouts in namespace treasury.',
      ]);
    });
  },
);
