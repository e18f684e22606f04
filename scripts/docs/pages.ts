import { alertTable } from './alert-table.ts';
import { configurationTables } from './config-table.ts';
import { errorTableOf } from './error-table.ts';
import { findingTable } from './finding-table.ts';
import { metricTable } from './metric-table.ts';
import { paymentTable } from './payment-table.ts';
import { runbookIndex } from './runbook-index.ts';
import { endpointTable, faultTable, rejectionList } from './simulator-tables.ts';

/** Parts of pages that are made from the code: by page, then by the name of the markers around the part. */
const parts: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'deploy/runbook.md': { index: runbookIndex },
  'docs/configuration.md': { configuration: configurationTables },
  'docs/errors.md': { errors: errorTableOf },
  'docs/metrics.md': { metrics: metricTable },
  'docs/operations.md': { alerts: alertTable },
  'docs/payments.md': { statuses: paymentTable },
  'docs/simulator.md': { endpoints: endpointTable, faults: faultTable, rejections: rejectionList },
  'docs/status.md': { findings: findingTable },
};

/** Paths from the root of the project. */
export const generatedPages: readonly string[] = Object.keys(parts);

/**
 * The text of a page with each of its parts between the markers.
 *
 * @throws Error if a marker is missing
 */
export function withGeneratedParts(page: string, text: string): string {
  return Object.entries(parts[page] ?? {}).reduce((before, [name, render]) => {
    const between = new RegExp(`(<!-- generated: ${name} -->\n)[^]*?(<!-- /generated -->)`);
    if (!between.test(before)) throw new Error(`${page} has no markers for ${name}`);
    return before.replace(between, (_all, start: string, end: string) => `${start}\n${render()}\n\n${end}`);
  }, text);
}
