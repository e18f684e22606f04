import type { Server as HttpsServer } from 'node:https';
import { Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import type { HandshakeFailure, HandshakeFailureCause } from '../../observability/logger.ts';
import { type MinVersion, tlsPolicy } from '../../util/agent.ts';
import { isCostlyKey } from '../../util/costly-key.ts';
import { errorCode } from '../../util/error-code.ts';
import { GuardedConnection, HandshakeQueue } from './guarded-connection.ts';

/** Ours, for what OpenSSL does not get to see. */
const handshakeTooLarge = 'ERR_SSL_HANDSHAKE_TOO_LARGE';

/** Ours, for a key that OpenSSL accepts. */
const clientKeyTooLarge = 'ERR_SSL_CLIENT_KEY_TOO_LARGE';

/**
 * OpenSSL's names, which differ between versions in their beginning. Clients of Node or OpenSSL that do not trust our CA
 * send the first alert, clients of Go the second and clients of Java the third.
 */
const causes: readonly (readonly [RegExp, HandshakeFailureCause])[] = [
  [/_HTTP_REQUEST$/, 'plain-http'],
  [/_UNSUPPORTED_PROTOCOL$/, 'tls-too-old'],
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
  /** Ends the connections that were accepted, or whose clients were verified, by what was replaced. */
  readonly verificationChanged: () => void;
}

/**
 * Accepts the TLS connections of a server. Certificates are requested only with `clientCa`: to verify those that anybody
 * makes up costs as much as a hundred requests, so with it handshakes are bounded. A handshake keeps the CA, the revocations
 * and the lowest version that it began with, so if these change, the connections of handshakes that began before are ended
 * too.
 *
 * @returns uses other certificates for new connections
 */
export function acceptTls(server: HttpsServer, options: HandshakeOptions): (tls: ListenerTls) => void {
  const { timeout, verificationChanged } = options;
  let { tls } = options;
  const reject = (socket: Socket, code: string, problem: string): void => {
    server.emit('tlsClientError', Object.assign(new Error(problem), { code }), socket);
  };
  const queue = new HandshakeQueue((socket) => {
    reject(socket, handshakeTooLarge, 'the client sent too much before its TLS handshake was complete');
  });
  let current = handshakes();
  // Node's listener would use what the server was created with.
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    current.emit('connection', tls.clientCa === undefined ? socket : new GuardedConnection(socket, queue));
  });
  return (next) => {
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
      else server.emit('secureConnection', socket);
    });
    return begun.on('tlsClientError', (error: Error, socket: TLSSocket) => {
      queue.current?.namePeer(socket);
      server.emit('tlsClientError', error, socket);
    });
  }
}

/**
 * The options that `setSecureContext` accepts too. Without `clientCa` no client certificate is accepted; Node's
 * default would accept those of every public CA. With renegotiation a socket would stay `authorized` by the certificate of
 * the first handshake, whichever a client presents then.
 */
function contextOptions({ cert, key, clientCa, clientCrl, minVersion }: ListenerTls): SecureContextOptions {
  const crl = clientCrl === undefined ? {} : { crl: clientCrl };
  return { ...tlsPolicy, minVersion, cert, key, ca: clientCa ?? [], ...crl };
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
export function handshakeFailure(error: Error, socket: Socket): HandshakeFailure | undefined {
  const code = errorCode(error) ?? '';
  if (!code.startsWith('ERR_SSL_')) return undefined;
  const cause = causes.find(([name]) => name.test(code))?.[1];
  return cause === undefined ? undefined : { cause, peer: peerOf(socket) };
}

/** Node keeps an address that was read once, and cannot read it when the connection has ended. */
export function rememberPeer(socket: Socket): void {
  void socket.remoteAddress;
}

/** The TCP connection of a failed handshake is not part of Node's API. */
function peerOf(socket: Socket): string | undefined {
  const connection: unknown = Reflect.get(socket, '_parent');
  return socket.remoteAddress ?? (connection instanceof Socket ? connection.remoteAddress : undefined);
}
