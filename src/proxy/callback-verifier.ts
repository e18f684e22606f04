import { ProxyError } from '../errors.ts';
import { type ControlSubject, controlName, controlText, parameterOf } from '../gateway/control.ts';
import { coveredBy } from '../gateway/operations.ts';
import type { UsableKey } from '../keys/ring.ts';
import type { KeyRequest, KeySelector } from '../keys/selector.ts';
import { isSha1Control } from '../oauth1/methods.ts';
import type { CallbackResult } from '../request-context.ts';
import { recordKey, type ValidatedRequest } from './outbound/signed-request.ts';

/** What the caller gets. Neither a control nor anything that the stranger who made a forged callback does not know. */
export interface CallbackVerdict {
  readonly result: CallbackResult;
  /** Of one that is not verified: why, and what to do. */
  readonly detail?: string;
  /** Of the key that made the control. */
  readonly keyVersion?: number;
  readonly environment: string;
  /** As it may be written. */
  readonly login: string | undefined;
  /** The parameters that the control covers. All others may be anybody's. */
  readonly covered: readonly string[];
}

const notVerified =
  'No key of the ring of the login made its control: it is forged or altered, or a late repetition, signed with a key that was replaced longer ago than keys.rotationGracePeriod. Do not act on it; query the status of orders of yours that are not decided.';

/** Verifies that whoever made a callback or redirect of the gateway had the control key of the login. Sends nothing. */
export async function verdictOn(
  request: Omit<ValidatedRequest, 'memory'>,
  keyed: KeyRequest,
  keys: Pick<KeySelector, 'find'>,
): Promise<CallbackVerdict> {
  const { record, destination } = request;
  const { environment, operation } = destination;
  const { login } = record;
  // The login is that of the request, whatever a posted parameter says.
  const covered = coveredBy(operation.control ?? []).filter((name) => name !== 'login');
  const about = { environment, login, covered };
  record.keyKind = keyed.kind;
  try {
    const key = await keys.find(keyed, (one) => hasMadeControl(request, one));
    if (key === undefined) return { result: 'not-verified', detail: notVerified, ...about };
    recordKey(record, key);
    return { result: 'verified', keyVersion: key.version, ...about };
  } catch (error) {
    if (error instanceof ProxyError && error.reason === 'key-missing')
      return { result: 'key-missing', ...about };
    throw error;
  }
}

/** Whether the control of a callback was made with this key. */
function hasMadeControl(callback: ControlSubject, { key }: UsableKey): boolean {
  const control = parameterOf(callback.form, controlName) ?? '';
  return !('publicKey' in key) && isSha1Control(control, controlText(callback), key);
}
