type Labels<Name extends string> = Record<Name, string>;

export interface CounterOf<Name extends string> {
  inc(labels: Labels<Name>, value?: number): void;
  remove(labels: Labels<Name>): void;
}

export interface GaugeOf<Name extends string> extends CounterOf<Name> {
  dec(labels: Labels<Name>): void;
  set(labels: Labels<Name>, value: number): void;
}

type Exemplar = { trace_id?: string };

export interface HistogramOf<Name extends string> {
  observe(sample: { labels: Labels<Name>; value: number; exemplarLabels?: Exemplar }): void;
}

/** Creates metrics; adds the prefix `countersign_` to their names. Bucket bounds are in seconds. */
export interface MetricFactory {
  readonly counter: <Name extends string>(name: string, help: string, labels: Name[]) => CounterOf<Name>;
  readonly gauge: <Name extends string>(name: string, help: string, labels: Name[]) => GaugeOf<Name>;
  readonly histogram: <Name extends string>(
    name: string,
    help: string,
    labels: Name[],
    buckets: number[],
  ) => HistogramOf<Name>;
}
