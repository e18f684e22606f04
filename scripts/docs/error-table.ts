import { errorTable } from '../../src/errors.ts';
import { code, table } from './markdown.ts';

/** Every error of Countersign's own. */
export function errorTableOf(): string {
  const rows = Object.entries(errorTable).map(([reason, { status, outcome, title, proxyStatusError }]) => [
    code(reason),
    String(status),
    code(outcome),
    title,
    code(proxyStatusError),
  ]);
  return table(['reason', 'status', 'outcome', 'title', 'Proxy-Status error'], rows);
}
