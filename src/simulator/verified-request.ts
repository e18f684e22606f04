import { orderIdsIn } from '../identifiers.ts';
import type { Pair } from './form.ts';

/** A verified request, as the operations receive it. */
export interface VerifiedRequest {
  readonly login: string;
  /** The variable segments of the path, decoded. */
  readonly path: Readonly<Record<string, string>>;
  readonly form: readonly Pair[];
  /** The gateway's ID of this request (docs/gateway-interface.md section 2.2). */
  readonly serialNumber: string;
}

/** The first parameter of that name; whether the gateway uses the first or the last is not shown. */
export function parameter({ form }: VerifiedRequest, name: string): string | undefined {
  return form.find(([found]) => found === name)?.[1];
}

/** The order ID, in either spelling. */
export function orderIdOf({ form }: VerifiedRequest): string | undefined {
  return orderIdsIn(form)[0];
}
