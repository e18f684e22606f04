/** A dashboard as data; kit.ts turns it into what Grafana imports. */
export interface DashboardModel {
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  readonly sections: readonly Section[];
}

export interface Section {
  readonly title: string;
  readonly panels: readonly PanelModel[];
}

export interface PanelModel {
  readonly title: string;
  /** What it shows and what to make of it. */
  readonly description: string;
  readonly kind: 'stat' | 'timeseries';
  /** Grafana's unit id, such as `s`, `reqps`, `percentunit`. */
  readonly unit: string;
  readonly queries: readonly Query[];
  /** From this value on it is drawn red. */
  readonly redFrom?: number;
  /** Below this value it is drawn red. */
  readonly redBelow?: number;
  /** The alert whose section of the runbook the panel links to. */
  readonly runbook?: string;
}

export interface Query {
  readonly expr: string;
  /** Grafana's legend template. */
  readonly legend: string;
}

/** Label matchers for the variables of every dashboard. */
export const inRelease = 'namespace=~"$namespace", release=~"$release"';
export const inEnvironment = `${inRelease}, environment=~"$environment"`;
export const onRoute = `${inEnvironment}, operation=~"$operation"`;

/** Series of different releases are never aggregated: whatever else a query groups by, it groups by these. */
const perRelease = 'namespace, release';

/** One value for each release and each combination of the labels given. */
export function aggregate(operator: 'sum' | 'min' | 'max' | 'count', by: string, expr: string): string {
  return `${operator} by (${perRelease}, ${by}) (${expr})`;
}

/** Events a second, by the labels given. */
export function perSecond(metric: string, matchers: string, by: string): string {
  return aggregate('sum', by, `rate(countersign_${metric}{${matchers}}[$__rate_interval])`);
}

/** One quantile of a histogram, by the labels given. */
export function quantile(q: number, metric: string, matchers: string, by: string): string {
  const buckets = `rate(countersign_${metric}_bucket{${matchers}}[$__rate_interval])`;
  return `histogram_quantile(${q}, ${aggregate('sum', `le, ${by}`, buckets)})`;
}

/** Median and 99th percentile, by one label. */
export function medianAndWorst(metric: string, matchers: string, by: string): readonly Query[] {
  return [
    { expr: quantile(0.5, metric, matchers, by), legend: `median {{${by}}}` },
    { expr: quantile(0.99, metric, matchers, by), legend: `p99 {{${by}}}` },
  ];
}

/** The part of the events in `whole` that `part` matches as well. */
export function share(metric: string, part: string, whole: string, by: string): string {
  return `${perSecond(metric, `${whole}, ${part}`, by)} / ${perSecond(metric, whole, by)}`;
}
