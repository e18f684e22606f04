import type { Ledger } from './ledger.ts';
import type { Scenario } from './scenario-shape.ts';

/** What the operations answer from. */
export interface SimulatorContext {
  readonly scenario: Scenario;
  readonly ledger: Ledger;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}
