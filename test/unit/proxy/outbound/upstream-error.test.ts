import { expect, it } from '@jest/globals';
import { configSchema } from '../../../../src/config/schema.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import { ConnectionError, type NetworkFailure } from '../../../../src/net/network-failure.ts';
import {
  type Cause,
  type FailureReason,
  proxyErrorFor,
  UpstreamError,
} from '../../../../src/proxy/outbound/upstream-error.ts';

const environment = { baseUrl: 'https://gateway.example', product: 'gw', timeouts: { request: '12s' } };
const routes = createRoutes(
  configSchema.parse({
    environments: { sandbox: environment },
    keys: { source: 'directory', directory: '/nowhere' },
  }),
);

const detailOf = (reason: FailureReason, cause: Cause = {}, operation = 'transfer'): string => {
  const failure = new UpstreamError(reason, reason !== 'gateway-unreachable', false, cause);
  return proxyErrorFor(failure, routes.resolve(`/sandbox/gw/api/v4/${operation}/1`)).detail;
};

const advice =
  'The request may have been processed. Query the status of a payment by order ID, let a person decide about a refund; do not send it again.';

it.each<[NetworkFailure, RegExp]>([
  ['dns', /^The gateway's host name .*\(DNS\)\. /],
  ['refused', /^The gateway refused /],
  ['timeout', /^The gateway did not accept .* within the timeout\. /],
  ['tls', /^The TLS handshake with the gateway /],
  ['other', /^The connection to the gateway failed\. /],
  ['proxy-unreachable', /^The egress proxy cannot be reached\. /],
  ['proxy-timeout', /^The egress proxy made no tunnel .* within the timeout\. /],
  ['proxy-tls', /^The TLS handshake with the egress proxy /],
  ['proxy-credentials', /^The egress proxy did not accept the credentials /],
  ['proxy-denied', /^The egress proxy denied /],
  ['proxy-failed', /^The egress proxy could not reach the gateway\. /],
  ['proxy-invalid', /^The egress proxy sent an invalid response\. /],
])('a gateway that is not reached because of %s says so, and that nothing was sent', (failure, text) => {
  const detail = detailOf('gateway-unreachable', { unreachable: failure });
  expect(detail).toMatch(text);
  expect(detail).toMatch(/ Nothing was sent; it is safe to send the request again\.$/);
});

it('a response that is late, cut or invalid says what to do about an unknown outcome', () => {
  expect(detailOf('gateway-timeout')).toBe(`No complete response within 12 s. ${advice}`);
  expect(detailOf('gateway-reset')).toBe(`The connection ended before the response was complete. ${advice}`);
  expect(detailOf('gateway-reply-invalid')).toBe(
    `The gateway's response is not valid HTTP, or has neither a length nor chunks, so that it may be a part of one. ${advice}`,
  );
  expect(detailOf('gateway-reset', {}, 'status')).toMatch(/ A query changes nothing, so it is safe /);
});

it('what the TLS of the gateway or the egress proxy said is added', () => {
  const alert = Object.assign(new Error('x'), { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' });
  expect(detailOf('gateway-reset', { error: alert })).toContain(' (TLS alert: certificate required). ');
  const text = 'write EPROTO 0:error:0A000412:SSL routines:ssl3_read_bytes:ssl/tls alert bad certificate:rec';
  const pending = Object.assign(new Error(text), { code: 'EPROTO' });
  expect(detailOf('gateway-reset', { error: pending })).toContain(' (TLS alert: bad certificate). ');
  const denied = {
    unreachable: 'proxy-denied',
    error: new ConnectionError('proxy-denied', 'status 403'),
  } as const;
  expect(detailOf('gateway-unreachable', denied)).toContain(
    'denied the tunnel to the gateway (status 403). ',
  );
  const other = { unreachable: 'other', error: new ConnectionError('other', 'status 101') } as const;
  expect(detailOf('gateway-unreachable', other)).toContain('The connection to the gateway failed. ');
});
