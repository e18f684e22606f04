import { expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { createDebugLog } from '../../../src/observability/debug-log.ts';
import { createLogger } from '../../../src/observability/logger.ts';

const login = { environment: 'sandbox', login: 'acme', mark: 'cvv2=123' };
const route = { environment: 'sandbox', operation: 'transfer', mark: 'cvv2=123' };

it('a line holds only what is named for its event, whatever else the event holds', () => {
  const lines: string[] = [];
  const log = createDebugLog(createLogger('debug', { write: (line) => void lines.push(line) }));
  const [key] = parseKeys({ control_key: 'cvv2=123' }, { version: 7 });
  if (key === undefined || !('key' in key)) throw new TypeError('the key cannot be used');
  const credential = { kind: 'jwt', issuer: 'idp', subject: 'shop', token: 'cvv2=123' } as const;
  const request = { id: 'id-1', startedAt: 0, attempts: 0, durations: {}, body: 'cvv2=123' };
  const facts = { ...request, ...route, caller: 'billing', readOnly: false, login: 'acme' };
  const failure = { reason: 'gateway-reset', written: true, stalePool: false, cause: 'cvv2=123' };
  log?.forRequest('id-1', () => {
    log.callerAuthenticated('billing', credential);
    log.requestRouted(facts);
    log.keySelected(login, 'transfer', key, 'newest');
    log.keysRefreshed(login);
    log.attemptFailed('transfer', failure);
    log.retryScheduled('transfer', 12.7);
  });
  log?.observer.gatewayResponded?.({ ...route, status: 200, seconds: 0.5 });
  log?.observer.gatewayUnreachable?.({ ...route, cause: 'dns' });
  log?.observer.currentKeyChanged?.(login, 'control_key', 7, 6);
  expect(lines.join('')).not.toContain('cvv2');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { level: 'debug', requestId: 'id-1', credential: 'jwt', issuer: 'idp', subject: 'shop' },
    { requestId: 'id-1', caller: 'billing', operation: 'transfer', readOnly: false, login: 'acme' },
    { msg: 'key selected', reason: 'newest', keyKind: 'control_key', keyVersion: 7 },
    { msg: 'keys refreshed after a rejection', login: 'acme' },
    { reason: 'gateway-reset', written: true, stalePool: false },
    { delayMs: 13 },
    { status: 200, ms: 500 },
    { cause: 'dns' },
    { keyKind: 'control_key', from: 7, to: 6 },
  ]);
});
