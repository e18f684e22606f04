import { Socket } from 'node:net';
import { expect, it } from '@jest/globals';
import { handshakeFailure } from '../../../../src/proxy/inbound/tls-handshakes.ts';

const causeOf = (code: string) =>
  handshakeFailure(Object.assign(new Error('x'), { code }), new Socket())?.cause;

it.each([
  ['ERR_SSL_HTTP_REQUEST', 'plain-http'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'tls-too-old'],
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'unknown-ca'],
  ['ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE', 'bad-certificate'],
  ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', 'bad-certificate'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN', 'certificate-unknown'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED', 'certificate-expired'],
  ['ERR_SSL_HANDSHAKE_TOO_LARGE', 'handshake-too-large'],
  ['ERR_SSL_CLIENT_KEY_TOO_LARGE', 'client-key-too-large'],
])('the error %s of a TLS handshake is reported as %s', (code, cause) => {
  expect(causeOf(code)).toBe(cause);
});

it.each(['ECONNRESET', 'HPE_INVALID_METHOD', 'ERR_SSL_UNEXPECTED_MESSAGE', 'ERR_TLS_HANDSHAKE_TIMEOUT'])(
  'the error %s is not reported',
  (code) => {
    expect(causeOf(code)).toBeUndefined();
  },
);
