import { expect, it } from '@jest/globals';
import {
  ConnectionError,
  describeNetworkFailure,
  isTlsFailure,
  networkFailureOf,
} from '../../../src/net/network-failure.ts';

it.each([
  ['ENOTFOUND', 'dns', 'DNS: ENOTFOUND'],
  ['EAI_AGAIN', 'dns', 'DNS: EAI_AGAIN'],
  ['ECONNREFUSED', 'refused', 'connection refused: ECONNREFUSED'],
  ['ETIMEDOUT', 'timeout', 'timeout: ETIMEDOUT'],
  ['CERT_HAS_EXPIRED', 'tls', 'TLS: CERT_HAS_EXPIRED'],
  ['EPROTO', 'tls', 'TLS: EPROTO'],
  ['ECONNRESET', 'other', 'ECONNRESET'],
  [undefined, 'other', 'no code'],
])('an error with the code %s is a failure of %s', (code, failure, text) => {
  const error = Object.assign(new Error('of 192.0.2.1'), { code });
  expect([networkFailureOf(error), describeNetworkFailure(error)]).toEqual([failure, text]);
  expect(isTlsFailure(error)).toBe(failure === 'tls');
});

it('TLS fails also with an egress proxy, which says so itself', () => {
  const error = new ConnectionError('proxy-tls', 'CERT_HAS_EXPIRED');
  expect(isTlsFailure(error)).toBe(true);
  expect(describeNetworkFailure(error)).toBe('TLS with the egress proxy: CERT_HAS_EXPIRED');
  expect(isTlsFailure(new ConnectionError('proxy-denied', 'status 403'))).toBe(false);
});
