import type { Ledger } from './ledger.ts';
import type { Scenario } from './scenario-schema.ts';

/** What the operations build their responses from. */
export interface SimulatorContext {
  readonly scenario: Scenario;
  readonly ledger: Ledger;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}
