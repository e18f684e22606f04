import type { AuditedAttempt } from '../../audit/record-fields.ts';
import type { UsableKey } from '../../keys/key-source.ts';
import type { SignedAttempt, ValidatedRequest } from './signed-request.ts';

/** What the audit trail records of a signed request. */
export function auditedAttempt(
  { origin, destination, form }: ValidatedRequest,
  { kind, version, fingerprint }: UsableKey,
  { nonce, timestamp }: Omit<SignedAttempt, 'http'>,
): AuditedAttempt {
  const { environment, operation } = destination;
  return {
    origin,
    environment,
    operation: operation.name,
    keyKind: kind,
    keyVersion: version,
    keyFingerprint: fingerprint,
    nonce,
    timestamp,
    form,
  };
}
