import { errorTable } from '../../src/errors.ts';
import { createLogger, type LogFields } from '../../src/observability/logger.ts';
import type { RequestContext } from '../../src/request-context.ts';
import { reasons } from './problem.ts';

type Note = readonly ['info' | 'warn' | 'error', string, LogFields];

const acme = { environment: 'production', login: 'acme' };

/** Messages of the code; runbook.test.ts checks that each is in src/. */
export const sampleNotes: readonly Note[] = [
  ['info', 'started', { proxy: 'https://10.0.0.1:8443', admin: 'http://10.0.0.1:9090', node: 'v26.12.1' }],
  ['info', 'keys updated', { ...acme, versions: 'private_key 5, private_key 4' }],
  ['warn', 'keys deleted in the key source', acme],
  ['error', 'login not found in the key source; its cached keys are used', { ...acme, logins: 1 }],
  ['info', 'no login with cached keys is missing in the key source any more', {}],
  ['info', 'keys removed from the cache', { ...acme, cause: 'unused' }],
  [
    'error',
    'the private key is damaged: its PEM text cannot be decoded',
    { ...acme, kind: 'private_key', version: 6 },
  ],
  ['error', 'key read failed: Vault denied permission (HTTP 403)', acme],
  ['error', 'Vault does not sign', { source: 'production', cause: 'Vault is sealed (HTTP 503)', seconds: 0 }],
  ['error', 'Vault login failed: Vault rejected the credentials (HTTP 400)', {}],
  ['error', 'the configured Vault token expires at 2026-12-01T00:00:00.000Z; replace it', {}],
  ['error', 'key source unavailable', { source: 'vault', cause: 'Vault is sealed (HTTP 503)', seconds: 300 }],
  [
    'error',
    'keys of a JWT issuer unavailable',
    { source: 'cluster', cause: 'https://idp.example/jwks: timeout: ETIMEDOUT', seconds: 300 },
  ],
  ['info', 'keys of a JWT issuer available again', { source: 'cluster', seconds: 412 }],
  ['info', 'key source available again', { source: 'vault', seconds: 412 }],
  ['error', 'certificate files are unusable; keeping the previous ones', { role: 'listener', fault: 'x' }],
  ['info', 'certificate files reloaded', { role: 'gateway', environment: 'production' }],
  ['warn', 'log lines dropped', { lines: 12 }],
  [
    'error',
    'traces are not delivered',
    { source: 'tracing', cause: 'status 503 instead of 200', seconds: 0 },
  ],
  ['info', 'traces are delivered again', { source: 'tracing', seconds: 95 }],
  [
    'error',
    'order IDs cannot be claimed; payments are not sent',
    { source: 'claims', cause: 'no response in time', seconds: 0 },
  ],
  ['info', 'order IDs can be claimed again', { source: 'claims', seconds: 95 }],
  ['error', 'audit records cannot be written', { source: 'audit', cause: 'ENOSPC', seconds: 0 }],
  ['info', 'audit records are written again', { source: 'audit', seconds: 95 }],
  ['error', 'audit records lost', { records: 12 }],
  ['error', 'configuration reload failed; keeping the current one', {}],
  ['warn', 'configuration reloaded; some fields require a restart', { fields: 'proxy.port' }],
  ['info', 'shutting down: draining in-flight requests', { inFlight: 1, timeoutSeconds: 35 }],
  ['info', 'stopped', {}],
];

const full: RequestContext = {
  ...acme,
  id: '1f0c2f63-6e8b-4f0e-9c6b-0d1c5a2b7e11',
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  startedAt: 0,
  caller: 'billing',
  orderId: 'invoice-7',
  statusPath: '/sandbox/gw/api/v4/status/1234',
  readOnly: false,
  operation: 'transfer',
  keyVersion: 4,
  keyKind: 'private_key',
  keyFingerprint: 'a40fc005cc6c66cc',
  status: 200,
  gatewayStatus: 200,
  gatewayResult: 'approved',
  gatewayErrorCode: 'other',
  outcome: 'answered',
  attempts: 1,
  serialNumber: '526074f1-de61-45e2-87f2-f613011b4ca7',
  durations: { total: 3, key: 0.001, sign: 0.004, gateway: 2.9 },
};

const client: RequestContext['rejected'] = {
  peer: '10.0.0.9',
  method: 'POST',
  credential: 'token',
  tokenHash: '2f77668a',
  jwtProblem: 'jwt-no-caller',
  jwtSubject: 'system:serviceaccount:pay:billing',
  certificateSubject: 'CN=billing',
  certificateIssuer: 'CN=internal CA',
  certificateProblem: 'CERT_HAS_EXPIRED',
  login: 'acme',
};

/** A log with every kind of line that the runbook searches for. */
export function sampleLog(): string {
  const lines: string[] = [];
  const log = createLogger('debug', { write: (line: string) => void lines.push(line) });
  for (const note of sampleNotes) log.message(...note);
  log.requestFinished(full);
  log.requestFinished({ ...full, status: 503, gatewayStatus: 503 });
  for (const rejection of ['current-key', 'other-key', 'clock-skew'] as const) {
    log.requestFinished({ ...full, status: 403, gatewayStatus: 403, rejection });
  }
  log.requestFinished({ ...full, unreachable: 'dns' });
  log.requestFinished({ ...full, orderMismatch: 'order-id' });
  for (const reason of reasons) {
    const { status, outcome } = errorTable[reason];
    const rejected = status === 401 || status === 403 ? client : undefined;
    const firstRequestId = reason === 'duplicate-payment' ? full.id : undefined;
    const limit = reason === 'overloaded' ? 'signing.maxQueue' : undefined;
    log.requestFinished({ ...full, reason, limit, status, outcome, rejected, firstRequestId });
  }
  log.handshakeFailed({ role: 'listener', problem: 'other', cause: 'plain-http', peer: '10.0.0.9' });
  log.internalError(full, new Error('x'));
  log.crash('uncaughtException', new Error('x'));
  return lines.join('');
}
