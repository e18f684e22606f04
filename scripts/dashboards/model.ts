/** A dashboard as data; panels.ts turns it into the JSON that Grafana imports. */
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
  /** What a person needs it for. A panel that no incident and no decision needs is not there. */
  readonly purpose: `Incident: ${string}` | `Decision: ${string}`;
  /** What it shows and how to read it. */
  readonly description: string;
  /** Time series by default. A table has a row for each combination of labels, and the last value of each query. */
  readonly kind?: 'stat' | 'table';
  /** Grafana's unit id, such as `s`, `reqps`, `percentunit`. */
  readonly unit: string;
  /** Expressions by Grafana's legend template; of a table, by the title of the column. The first one sorts its rows. */
  readonly queries: Queries;
  /** Drawn red at or above this value. */
  readonly redFrom?: number;
  /** Drawn red below this value. */
  readonly redBelow?: number;
  /** The alert whose runbook section the panel links to. */
  readonly runbook?: string;
}

export type Queries = Readonly<Record<string, string>>;

/** Label matchers for the variables of every dashboard. */
export const inRelease = 'namespace=~"$namespace", release=~"$release"';
export const inEnvironment = `${inRelease}, environment=~"$environment"`;
export const onRoute = `${inEnvironment}, operation=~"$operation"`;

/** Every query groups by these, so that series of different releases are never aggregated. */
const perRelease = 'namespace, release';

/** One value per release and combination of the given labels. */
export function aggregate(operator: 'sum' | 'min' | 'max' | 'count', by: string, expr: string): string {
  return `${operator} by (${perRelease}, ${by}) (${expr})`;
}

/** The largest value of a metric, by the given labels. */
export function max(metric: string, matchers: string, by: string): string {
  return aggregate('max', by, `countersign_${metric}{${matchers}}`);
}

/** The smallest value of a metric, by the given labels. */
export function min(metric: string, matchers: string, by: string): string {
  return aggregate('min', by, `countersign_${metric}{${matchers}}`);
}

/** Events per second, by the given labels. */
export function perSecond(metric: string, matchers: string, by: string): string {
  return aggregate('sum', by, `rate(countersign_${metric}{${matchers}}[$__rate_interval])`);
}

/** A quantile of a histogram, by the given labels. */
export function quantile(q: number, metric: string, matchers: string, by: string): string {
  const buckets = `rate(countersign_${metric}_bucket{${matchers}}[$__rate_interval])`;
  return `histogram_quantile(${q}, ${aggregate('sum', `le, ${by}`, buckets)})`;
}

/** Median and 99th percentile, by one label. */
export function medianAndP99(metric: string, matchers: string, by: string): Queries {
  return {
    [`median {{${by}}}`]: quantile(0.5, metric, matchers, by),
    [`p99 {{${by}}}`]: quantile(0.99, metric, matchers, by),
  };
}

/** The ratio of events matching `part` to those matching `whole`. */
export function share(metric: string, part: string, whole: string, by: string): string {
  return `${perSecond(metric, `${whole}, ${part}`, by)} / ${perSecond(metric, whole, by)}`;
}
