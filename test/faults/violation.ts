import type { ProcessRecord, RequestRecord } from './ledger.ts';
import type { CallerKind } from './plan.ts';

export const rules = ['doubled', 'lie', 'crossed', 'lost', 'unlogged', 'late', 'process'] as const;
export type Rule = (typeof rules)[number];

/** A broken promise, with what is needed to reproduce it. */
export interface Violation {
  readonly rule: Rule;
  readonly detail: string;
  /** Order id, operation, fault, site, caller and process; or the process alone. */
  readonly subject: string;
  /** Unset where it is about a process. */
  readonly caller?: CallerKind;
}

/** Milliseconds that the rules allow. */
export interface Bounds {
  /** For a whole upstream request. */
  readonly requestTimeout: number;
  /** For the body of a request, and on top of the timeouts for a machine that is busy. */
  readonly slack: number;
  /** From SIGTERM to the end of the process. */
  readonly stop: number;
  /**
   * A surplus response that is sent separately may arrive after the last check of the connection before the next
   * request is written, and then it looks like the response to that. There is one check per turn of the event loop,
   * which is as long as the process is busy: crossed responses within this time are counted, but not as violations.
   */
  readonly surplusWindow: number;
}

export function subjectOf({ plan, process }: RequestRecord): string {
  const { orderId, operation, fault, site, caller, position, session } = plan;
  return `${orderId} ${operation} ${fault} at ${site}, ${caller} #${position} of session ${session}, process ${process ?? 'none'}`;
}

export function subjectOfProcess({ id, instance, log, signals }: ProcessRecord): string {
  const sent = signals.map(({ name }) => name).filter((name) => name !== 'SIGHUP');
  return `process ${id} of instance ${instance} (log ${log}; ${sent.join(', ') || 'no signal to stop'})`;
}
