import type { Condition } from './conditions/condition.ts';
import { ofGateway } from './conditions/gateway.ts';
import { ofInstance, ofUpkeep } from './conditions/instance.ts';
import { ofKeySource } from './conditions/key-source.ts';
import { ofKeys } from './conditions/keys.ts';
import { ofPayments } from './conditions/payments.ts';
import { ofCallers, ofRequests } from './conditions/requests.ts';
import type { FailureCause } from './facts.ts';

/**
 * Everything that operators have to know of, by its stable code, the most serious first. Findings, alert rules and the index
 * of the runbook are made from it.
 */
export const conditions = {
  ...ofPayments,
  ...ofInstance,
  ...ofKeySource,
  ...ofGateway,
  ...ofRequests,
  ...ofKeys,
  ...ofUpkeep,
  ...ofCallers,
};

/** Of those that a status can have as a finding. */
export const findingCodes = Object.entries<Condition>(conditions)
  .flatMap(([code, { find }]) => (find === undefined ? [] : [code]))
  .filter((code): code is keyof typeof conditions => code in conditions);

/** Of causes that are no condition: the caller has to act. */
const sections: Partial<Record<FailureCause, string>> = {
  'duplicate-payment': 'Repeated payment',
  'order-id-reused': 'Repeated payment',
  'request-timeout': 'Incomplete request',
  'caller-gone': 'Incomplete request',
};

/** Heading of the section of the runbook. */
export function sectionOf({ section, alert }: Condition): string {
  return section ?? alert ?? '';
}

/** The same for failed requests, by their cause. */
export function sectionOfCause(cause: FailureCause): string {
  const one = Object.values<Condition>(conditions).find(({ causes }) => causes?.includes(cause));
  return one === undefined ? (sections[cause] ?? 'Invalid request') : sectionOf(one);
}

/** `#clock-skew` */
export function anchorOf(heading: string): string {
  return `#${heading.toLowerCase().replaceAll(' ', '-')}`;
}
