import { constants } from 'node:crypto';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import { errorCode } from '../../errors.ts';
import { clientAddress } from '../../net/http.ts';
import { sessionOf, type TlsFailure, type TlsObserver, tlsProblemOf } from '../../net/tls-observer.ts';
import { type MinVersion, tlsPolicy } from '../../net/tls-policy.ts';

/**
 * OpenSSL's names, which differ between versions in their beginning. Clients of Node or OpenSSL that do not trust our CA
 * send the first alert, clients of Go the second and clients of Java the third.
 */
const causes: readonly (readonly [RegExp, string])[] = [
  [/_HTTP_REQUEST$/, 'plain-http'],
  [/_UNSUPPORTED_PROTOCOL$/, 'tls-too-old'],
  [/_NO_SHARED_(CIPHER|GROUP|SIGNATURE_ALGORITHMS)$|_NO_SUITABLE_/, 'no-shared-cipher'],
  [/_ALERT_UNKNOWN_CA$/, 'unknown-ca'],
  [/_ALERT_BAD_CERTIFICATE$/, 'bad-certificate'],
  [/_ALERT_CERTIFICATE_UNKNOWN$/, 'certificate-unknown'],
  [/_ALERT_CERTIFICATE_EXPIRED$/, 'certificate-expired'],
];

/** PEM texts. Clients may present a certificate of `clientCa` that is not on `clientCrl`. */
export interface ServerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
  readonly clientCrl: string | undefined;
  readonly minVersion: MinVersion;
}

/** Whether both verify clients in the same way. */
export function sameVerification(one: ServerTls, other: ServerTls): boolean {
  return (
    one.clientCa === other.clientCa &&
    one.clientCrl === other.clientCrl &&
    one.minVersion === other.minVersion
  );
}

/**
 * The options that `setSecureContext` accepts too. Without `clientCa` no client certificate is accepted; Node's
 * default would accept those of every public CA. With renegotiation a socket would stay `authorized` by the certificate of
 * the first handshake, whichever a client presents then; and on a resumed session by what was valid when that began, also
 * after the certificate, its CA or the revocation list expired.
 */
export function contextOptions({
  cert,
  key,
  clientCa,
  clientCrl,
  minVersion,
}: ServerTls): SecureContextOptions {
  const secureOptions = tlsPolicy.secureOptions | (clientCa === undefined ? 0 : constants.SSL_OP_NO_TICKET);
  return { ...tlsPolicy, secureOptions, minVersion, cert, key, ca: clientCa ?? [], crl: clientCrl };
}

/** Reports the handshakes of an HTTPS server. */
export function observeHandshakes(server: Server, observer: TlsObserver): void {
  server.on('secureConnection', (socket: TLSSocket) => {
    observer.connected({ ...sessionOf(socket), peer: clientAddress(socket) });
  });
  server.on('tlsClientError', (error: Error, socket: TLSSocket) => {
    const failure = handshakeFailure(error, socket);
    if (failure !== undefined) observer.failed(failure);
  });
}

/**
 * Mistakes of a client that never gets a response, and that an operator can correct. `undefined` for anything else: port
 * scans and health checks of load balancers would fill the log.
 */
export function handshakeFailure(error: Error, socket: Socket): TlsFailure | undefined {
  const code = errorCode(error) ?? '';
  const cause = causes.find(([name]) => name.test(code))?.[1];
  if (cause === undefined) return undefined;
  return { problem: tlsProblemOf(error) ?? 'other', cause, peer: clientAddress(socket) };
}
