import type { VerificationFailure } from './rejections.ts';

/**
 * Thrown by the first failed check. The gateway responds with 403 and no reason (docs/gateway-interface.md section 7). So
 * does the simulator, but it adds the reason in the header `Simulator-Rejection`.
 */
export class VerificationError extends Error {
  override readonly name = 'VerificationError';
  readonly reason: VerificationFailure;
  /** The OAuth parameter that is missing, repeated or different. */
  readonly parameter: string | undefined;

  constructor(reason: VerificationFailure, parameter?: string) {
    super(reason);
    this.reason = reason;
    this.parameter = parameter;
  }
}
