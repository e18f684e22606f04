import type { Status } from './schema.ts';

/** The status as a page for a browser. */
export function renderStatusPage(status: Status): string {
  const text = JSON.stringify(status, null, 2);
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return `<!doctype html><html lang="en"><title>Countersign status</title><pre>${escaped}</pre></html>\n`;
}
