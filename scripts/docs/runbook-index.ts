import { errorTable, type Reason } from '../../src/errors.ts';
import { networkFailures } from '../../src/net/network-failure.ts';
import type { Condition } from '../../src/observability/status/conditions/condition.ts';
import {
  anchorOf,
  conditions,
  sectionOf,
  sectionOfCause,
} from '../../src/observability/status/conditions.ts';
import { rejections } from '../../src/request-context.ts';
import { code, table } from './markdown.ts';

/** Reasons and causes of failed requests, each with the heading of its section. */
export function causeSections(): (readonly [cause: string, section: string])[] {
  const reasons = Object.keys(errorTable).filter((one): one is Reason => one in errorTable);
  return [
    ...[...reasons, ...rejections].map((cause) => [cause, sectionOfCause(cause)] as const),
    ...networkFailures(true).map((cause) => [cause, sectionOfCause('gateway-unreachable')] as const),
  ];
}

/** From what a person on call sees to the section of the runbook: findings, reasons and causes. */
export function runbookIndex(): string {
  const seen = [
    ...Object.entries<Condition>(conditions).map(
      ([name, one]) => [one.find === undefined ? '' : name, sectionOf(one)] as const,
    ),
    ...causeSections(),
  ];
  const rows = [...Map.groupBy(seen, ([, section]) => section)].map(([section, entries]) => {
    const names = new Set(entries.flatMap(([name]) => (name === '' ? [] : [code(name)])));
    return [`[${section}](${anchorOf(section)})`, [...names].join(', ')];
  });
  return table(['section', 'finding, reason or cause'], rows);
}
