import { constants } from 'node:crypto';
import type { Server as HttpsServer } from 'node:https';
import { Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import { isCostlyKey } from '../../auth/client-certificate.ts';
import { errorCode } from '../../errors.ts';
import { clientAddress } from '../../net/http.ts';
import { sessionOf, type TlsFailure, type TlsObserver, tlsProblemOf } from '../../net/tls-observer.ts';
import { type MinVersion, tlsPolicy } from '../../net/tls-policy.ts';
import { GuardedConnection, HandshakeQueue } from './guarded-connection.ts';

/** Ours, for what OpenSSL does not get to see. */
const handshakeTooLarge = 'ERR_SSL_HANDSHAKE_TOO_LARGE';

/** Ours, for a key that OpenSSL accepts. */
const clientKeyTooLarge = 'ERR_SSL_CLIENT_KEY_TOO_LARGE';

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
  [/_HANDSHAKE_TOO_LARGE$/, 'handshake-too-large'],
  [/_CLIENT_KEY_TOO_LARGE$/, 'client-key-too-large'],
];

/** PEM texts. Clients may present a certificate of `clientCa` that is not on `clientCrl`. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
  readonly clientCrl?: string;
  readonly minVersion: MinVersion;
}

interface HandshakeOptions {
  readonly tls: ListenerTls;
  /** Milliseconds for a handshake. */
  readonly timeout: number;
  readonly observer: TlsObserver;
  /** Ends the connections that were accepted, or whose clients were verified, by what was replaced. */
  readonly verificationChanged: () => void;
}

/**
 * Accepts the TLS connections of a server. Certificates are requested only with `clientCa`: to verify those that anybody
 * makes up costs as much as a hundred requests, so with it handshakes are bounded. A handshake keeps the CA, the revocations
 * and the lowest version that it began with, so if these change, the connections of handshakes that began before are ended
 * too.
 *
 * @returns uses other certificates for new connections, if there are any
 */
export function acceptTls(
  server: HttpsServer,
  options: HandshakeOptions,
): (tls: ListenerTls | undefined) => void {
  const { timeout, observer, verificationChanged } = options;
  let { tls } = options;
  const fail = (error: Error, socket: Socket): void => {
    const failure = handshakeFailure(error, socket);
    if (failure !== undefined) observer.failed(failure);
    server.emit('tlsClientError', error, socket);
  };
  const reject = (socket: Socket, code: string, problem: string): void =>
    fail(Object.assign(new Error(problem), { code }), socket);
  const queue = new HandshakeQueue((socket) => {
    reject(socket, handshakeTooLarge, 'the client sent too much before its TLS handshake was complete');
  });
  let current = handshakes();
  // Node's listener would use what the server was created with.
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    // Node keeps an address that was read once, and cannot read it when the connection has ended.
    void socket.remoteAddress;
    current.emit('connection', tls.clientCa === undefined ? socket : new GuardedConnection(socket, queue));
  });
  return (next) => {
    if (next === undefined) return;
    const same =
      tls.clientCa === next.clientCa &&
      tls.clientCrl === next.clientCrl &&
      tls.minVersion === next.minVersion;
    tls = next;
    if (same) {
      current.setSecureContext(contextOptions(tls));
    } else {
      current = handshakes();
      verificationChanged();
    }
  };

  function handshakes(): TlsServer {
    const begun = createTlsServer({
      ...contextOptions(tls),
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: timeout,
      requestCert: tls.clientCa !== undefined,
      rejectUnauthorized: false,
    });
    begun.on('secureConnection', (socket) => {
      queue.current?.handshakeComplete(socket);
      if (begun !== current) socket.destroy();
      else if (hasCostlyKey(socket))
        reject(socket, clientKeyTooLarge, 'the RSA key of the client is too large');
      else {
        observer.connected({ ...sessionOf(socket), peer: clientAddress(socket) });
        server.emit('secureConnection', socket);
      }
    });
    return begun.on('tlsClientError', (error: Error, socket: TLSSocket) => {
      queue.current?.namePeer(socket);
      fail(error, socket);
    });
  }
}

/**
 * The options that `setSecureContext` accepts too. Without `clientCa` no client certificate is accepted; Node's
 * default would accept those of every public CA. With renegotiation a socket would stay `authorized` by the certificate of
 * the first handshake, whichever a client presents then; and on a resumed session by what was valid when that began, also
 * after the certificate, its CA or the revocation list expired.
 */
function contextOptions({ cert, key, clientCa, clientCrl, minVersion }: ListenerTls): SecureContextOptions {
  const crl = clientCrl === undefined ? {} : { crl: clientCrl };
  const secureOptions = tlsPolicy.secureOptions | (clientCa === undefined ? 0 : constants.SSL_OP_NO_TICKET);
  return { ...tlsPolicy, secureOptions, minVersion, cert, key, ca: clientCa ?? [], ...crl };
}

/** Whether each handshake of this client would take too long: its own key, which it proves to have. */
function hasCostlyKey(socket: TLSSocket): boolean {
  const certificate = socket.getPeerX509Certificate();
  return certificate !== undefined && isCostlyKey(certificate.publicKey);
}

/**
 * Mistakes of a client that never gets a response, and that an operator can correct. `undefined` for anything else: port
 * scans and health checks of load balancers would fill the log.
 */
export function handshakeFailure(error: Error, socket: Socket): TlsFailure | undefined {
  const code = errorCode(error) ?? '';
  if (!code.startsWith('ERR_SSL_')) return undefined;
  const cause = causes.find(([name]) => name.test(code))?.[1];
  if (cause === undefined) return undefined;
  return { problem: tlsProblemOf(error) ?? 'other', cause, peer: peerOf(socket) };
}

/** The TCP connection of a failed handshake is not part of Node's API. */
function peerOf(socket: Socket): string | undefined {
  const connection: unknown = Reflect.get(socket, '_parent');
  return clientAddress(socket) ?? (connection instanceof Socket ? clientAddress(connection) : undefined);
}
