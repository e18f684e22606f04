import { Socket } from 'node:net';
import { expect, it } from '@jest/globals';
import { handshakeFailure } from '../../../../src/proxy/inbound/server-tls.ts';

const failureOf = (code: string) => handshakeFailure(Object.assign(new Error('x'), { code }), new Socket());

it.each([
  ['ERR_SSL_HTTP_REQUEST', 'plain-http', 'other'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'tls-too-old', 'version'],
  ['ERR_SSL_NO_SHARED_CIPHER', 'no-shared-cipher', 'cipher'],
  ['ERR_SSL_NO_SUITABLE_KEY_SHARE', 'no-shared-cipher', 'cipher'],
  ['ERR_SSL_NO_SUITABLE_SIGNATURE_ALGORITHM', 'no-shared-cipher', 'cipher'],
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'unknown-ca', 'certificate'],
  ['ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE', 'bad-certificate', 'certificate'],
  ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', 'bad-certificate', 'certificate'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN', 'certificate-unknown', 'certificate'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED', 'certificate-expired', 'certificate'],
])('the error %s of a TLS handshake is reported as %s, which is about: %s', (code, cause, problem) => {
  expect(failureOf(code)).toMatchObject({ cause, problem });
});

it.each(['ECONNRESET', 'HPE_INVALID_METHOD', 'ERR_SSL_UNEXPECTED_MESSAGE', 'ERR_TLS_HANDSHAKE_TIMEOUT'])(
  'the error %s is not reported',
  (code) => {
    expect(failureOf(code)).toBeUndefined();
  },
);
