import type { Pair } from './form.ts';
import type { VerificationError, VerificationFailure } from './rejections.ts';
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
interface StepDetails {
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
  readonly triedKeys?: readonly KeyName[] | undefined;
}

export interface Step extends StepDetails {
  readonly step: StepName;
  readonly result: 'passed' | 'failed';
  readonly rejection: VerificationFailure | undefined;
}

/** Records the steps of one verification, up to the first that fails. */
export class VerificationTrace {
  readonly steps: Step[] = [];
  /** The consumer key, once it is known: what the request claims, verified or not. */
  login: string | undefined;
  /** The parameters of the request without those of OAuth, once they are decoded. */
  form: readonly Pair[] = [];

  /** Begins a step. It passes unless {@link fail} follows. */
  begin(step: StepName): void {
    this.steps.push({ step, result: 'passed', rejection: undefined });
  }

  /** Adds details to the last step. */
  note(details: StepDetails): void {
    const last = this.steps.pop();
    if (last !== undefined) this.steps.push({ ...last, ...details });
  }

  /** Ends the verification with the last step. */
  fail({ reason: rejection, parameter }: VerificationError): void {
    const last = this.steps.pop();
    if (last !== undefined) this.steps.push({ ...last, result: 'failed', rejection, parameter });
  }
}
