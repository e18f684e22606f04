import { type KeyKind, methods } from '../../src/oauth1/methods.ts';
import type { ValidatedRequest } from '../../src/proxy/outbound/signed-request.ts';

export function kindOf({ destination }: ValidatedRequest): KeyKind {
  return methods[destination.operation.signature].kind;
}
