import { setImmediate as nextTurn } from 'node:timers/promises';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { initializeSeries } from './init-metrics.ts';
import { createLabels, type LabelDomain } from './labels.ts';
import { createMetrics } from './metric-definitions.ts';
import type { MetricFactory } from './metric-factory.ts';
import type { MetricsObserver } from './metrics-observer.ts';
import { createMetricsRecorder } from './metrics-recorder.ts';
import type { Page } from './shared-page.ts';

export interface Prometheus extends MetricsObserver {
  /** The metrics page in the Prometheus text format, or in OpenMetrics with trace ids as exemplars. */
  page(openMetrics: boolean): Promise<Page>;
  /**
   * Adds the names of a reloaded configuration. Counters continue, and earlier names remain valid labels:
   * in-flight requests still use them.
   */
  reconfigure(names: LabelDomain): void;
}

type SourceRegistry = Registry<typeof Registry.OPENMETRICS_CONTENT_TYPE>;

/** prom-client's gauges that are named like counters; `promtool check metrics` rejects them. */
const misnamed = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`);

/** The last line of an OpenMetrics page. */
const endOfMetrics = '# EOF\n';

/** The metrics of one process, in a separate registry. */
export function createPrometheus(options: LabelDomain & { readonly version: string }): Prometheus {
  // prom-client accepts exemplars only in a registry of this type; render() produces both formats from it.
  const registry: SourceRegistry = new Registry<typeof Registry.OPENMETRICS_CONTENT_TYPE>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const metrics = createMetrics(metricFactory(registry));
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  metrics.buildInfo.set({ version: options.version, node_version: process.version }, 1);
  // A gauge without labels starts at 0, which would be a wrong value.
  metrics.keySourceUp.remove({});
  metrics.cachedKeysLeft.remove({});
  metrics.auditUp.remove({});
  metrics.auditSequence.remove({});
  metrics.auditHead.remove({});
  metrics.tokenExpiry.remove({});
  metrics.tokenLease.remove({});
  metrics.configReloaded.remove({});
  metrics.configReloadedAt.remove({});

  let known: LabelDomain = options;
  let labels = createLabels(known);
  initializeSeries(metrics, known);
  return {
    ...createMetricsRecorder(metrics, () => labels),
    page: (openMetrics) => render(registry, openMetrics),
    reconfigure(names) {
      known = merge(known, names);
      labels = createLabels(known);
      initializeSeries(metrics, names);
    },
  };
}

function merge(earlier: LabelDomain, later: LabelDomain): LabelDomain {
  return {
    environments: { ...earlier.environments, ...later.environments },
    callers: [...new Set([...earlier.callers, ...later.callers])],
    issuers: [...new Set([...(earlier.issuers ?? []), ...(later.issuers ?? [])])],
  };
}

function metricFactory(registry: SourceRegistry): MetricFactory {
  const common = { registers: [registry] };
  return {
    counter: (name, help, labelNames) =>
      new Counter({ ...common, name: `countersign_${name}`, help, labelNames }),
    gauge: (name, help, labelNames) =>
      new Gauge({ ...common, name: `countersign_${name}`, help, labelNames }),
    histogram: (name, help, labelNames, buckets) =>
      new Histogram<string>({
        ...common,
        name: `countersign_${name}`,
        help,
        labelNames,
        buckets,
        enableExemplars: true,
      }),
  };
}

/**
 * Renders views of the metrics in a registry of the requested format: prom-client 15 permanently removes `_total` from
 * the name of a counter that it renders as OpenMetrics. One metric in each turn of the event loop: with a thousand logins
 * all of them take 100 ms.
 */
async function render(source: SourceRegistry, openMetrics: boolean): Promise<Page> {
  const { OPENMETRICS_CONTENT_TYPE, PROMETHEUS_CONTENT_TYPE } = Registry;
  const contentType = openMetrics ? OPENMETRICS_CONTENT_TYPE : PROMETHEUS_CONTENT_TYPE;
  const parts: string[] = [];
  for (const metric of source.getMetricsAsArray()) {
    const view = new Registry<typeof contentType>();
    view.setContentType(contentType);
    view.registerMetric(Object.create(metric));
    const part = await view.metrics();
    parts.push(openMetrics ? part.slice(0, -endOfMetrics.length) : part);
    await nextTurn();
  }
  const body = openMetrics ? `${parts.join('')}${endOfMetrics}` : parts.join('\n');
  return { contentType, body };
}
