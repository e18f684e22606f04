import { at, list, record } from './helm.ts';
import type { ScrapeConfig } from './prometheus-server.ts';

/**
 * The scrape configuration that the Prometheus operator generates from a ServiceMonitor, for one target: service
 * discovery adds `__meta_` labels,
 * the operator's own relabelings come first, then those of the endpoint (generateServiceMonitorConfig in its
 * pkg/prometheus/promcfg.go).
 *
 * @param service the Service that the monitor selects
 * @param address host and port to scrape instead of the Service's endpoint
 */
export function operatorScrape(monitor: unknown, service: unknown, address: string): ScrapeConfig {
  const namespace = String(at(service, 'metadata', 'namespace') ?? at(monitor, 'metadata', 'namespace'));
  const name = String(at(service, 'metadata', 'name'));
  const serviceLabels = Object.entries(record(service, 'metadata', 'labels')).map(([label, value]) => [
    `__meta_kubernetes_service_label_${sanitized(label)}`,
    String(value),
  ]);
  const [endpoint] = list(monitor, 'spec', 'endpoints');
  const jobLabel = at(monitor, 'spec', 'jobLabel');
  return {
    job_name: `serviceMonitor/${namespace}/${name}/0`,
    static_configs: [
      {
        targets: [address],
        labels: {
          __meta_kubernetes_namespace: namespace,
          __meta_kubernetes_service_name: name,
          ...Object.fromEntries(serviceLabels),
        },
      },
    ],
    relabel_configs: [
      { source_labels: ['__meta_kubernetes_namespace'], target_label: 'namespace' },
      { source_labels: ['__meta_kubernetes_service_name'], target_label: 'service' },
      { source_labels: ['__meta_kubernetes_service_name'], target_label: 'job' },
      ...(typeof jobLabel === 'string'
        ? [
            {
              source_labels: [`__meta_kubernetes_service_label_${sanitized(jobLabel)}`],
              regex: '(.+)',
              target_label: 'job',
            },
          ]
        : []),
      ...list(endpoint, 'relabelings').map(relabeling),
    ],
  };
}

function sanitized(label: string): string {
  return label.replaceAll(/[^A-Za-z0-9_]/g, '_');
}

/** The operator uses camel case, Prometheus uses snake case. */
function relabeling(entry: unknown): object {
  return Object.fromEntries(
    Object.entries(record(entry)).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  );
}
