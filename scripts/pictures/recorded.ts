import { readFileSync } from 'node:fs';
import { z } from 'zod';

const series = z.object({
  labels: z.record(z.string(), z.string()),
  /** One value per step; `null` if there is none. */
  values: z.array(z.number().nullable()),
});

/** The results of Prometheus for the queries of one dashboard. */
const recordingShape = z.object({
  /** First step, Unix time in seconds. */
  start: z.number(),
  /** Seconds from one value to the next. */
  step: z.number().positive(),
  steps: z.int().positive(),
  /** The value of `$__rate_interval`. */
  rateInterval: z.string(),
  /** The events, by seconds from the start. */
  events: z.array(z.object({ at: z.number(), what: z.string() })),
  /** By panel title, then one for each query of the panel. */
  panels: z.record(z.string(), z.array(z.object({ expr: z.string(), series: z.array(series) }))),
});

export type Recording = z.output<typeof recordingShape>;
export type RecordedQuery = Recording['panels'][string][number];
export type Series = z.output<typeof series>;

/** `overview.json` is the dashboard, `overview.recording.json` the recording, `overview.svg` the picture. */
export function recordingFile(dashboardFile: string): string {
  return dashboardFile.replace('.json', '.recording.json');
}

/** @throws ZodError for a file that is not one of {@link Recording} */
export function readRecording(dashboardFile: string): Recording {
  const file = new URL(`../../deploy/grafana/pictures/${recordingFile(dashboardFile)}`, import.meta.url);
  return recordingShape.parse(JSON.parse(readFileSync(file, 'utf8')));
}
