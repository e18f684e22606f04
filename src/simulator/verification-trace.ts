import type { Pair } from './form.ts';
import { VerificationError, type VerificationFailure } from './rejections.ts';
import type { KeyName, SignatureMethod } from './signature.ts';

/** In the order in which they are made. */
type StepName =
  | 'form'
  | 'authorization'
  | 'oauth-parameters'
  | 'method'
  | 'timestamp'
  | 'login'
  | 'base-string'
  | 'signature'
  | 'nonce'
  | 'operation';

/** What a step shows besides its result. Nothing of it is secret, but texts of the request may hold card data. */
export interface StepDetails {
  /** The OAuth parameter that is missing, repeated or different. */
  readonly parameter?: string | undefined;
  readonly requiredMethod?: SignatureMethod;
  readonly receivedMethod?: string | undefined;
  /** Seconds since 1970. */
  readonly timestamp?: number;
  /** The simulator's clock, in the same unit. */
  readonly clock?: number;
  readonly windowSeconds?: number;
  readonly baseString?: string | undefined;
  /** The key that made the signature. */
  readonly key?: KeyName | undefined;
  /** The keys that did not make it. */
  readonly triedKeys?: readonly KeyName[];
}

export interface Step extends StepDetails {
  readonly step: StepName;
  readonly result: 'passed' | 'failed';
  readonly rejection?: VerificationFailure;
}

/** Records the steps of one verification, up to the first that fails. */
export class VerificationTrace {
  readonly steps: Step[] = [];
  /** The consumer key, once it is known: what the request claims, verified or not. */
  login: string | undefined;
  /** The parameters of the request without those of OAuth, once they are decoded. */
  form: readonly Pair[] = [];

  /**
   * Runs one step and records its result.
   *
   * @param check calls `note` with the details of this step; the last call counts
   */
  run<T>(step: StepName, check: (note: (details: StepDetails) => void) => T): T {
    let details: StepDetails = {};
    try {
      const value = check((noted) => {
        details = noted;
      });
      this.steps.push({ step, result: 'passed', ...details });
      return value;
    } catch (error) {
      if (error instanceof VerificationError) {
        const { reason: rejection, parameter } = error;
        this.steps.push({ step, result: 'failed', rejection, ...details, parameter });
      }
      throw error;
    }
  }
}
