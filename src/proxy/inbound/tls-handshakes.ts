import { constants } from 'node:crypto';
import type { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import { isCostlyKey } from '../../util/costly-key.ts';
import { GuardedConnection, HandshakeQueue } from './guarded-connection.ts';
import { clientKeyTooLarge, handshakeTooLarge } from './handshake-failure.ts';

/** PEM texts. Clients may present a certificate of `clientCa` that is not on `clientCrl`. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
  readonly clientCrl?: string;
}

export interface HandshakeOptions {
  readonly tls: ListenerTls;
  /** Milliseconds for a handshake. */
  readonly timeout: number;
  /** Ends the connections whose clients were verified, or not requested to send a certificate, by what was replaced. */
  readonly verificationChanged: () => void;
}

/**
 * Accepts the TLS connections of a server. Certificates are requested only with `clientCa`: to verify those that anybody
 * makes up costs as much as a hundred requests, so with it handshakes are bounded. A handshake keeps the CA and the
 * revocations that it began with, so if these change, the connections of handshakes that began before are ended too.
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
    const same = tls.clientCa === next.clientCa && tls.clientCrl === next.clientCrl;
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
 * default would accept those of every public CA. Node allows renegotiation in TLS 1.2, and a socket stays `authorized`
 * by the certificate of the first handshake, whichever a client presents then.
 */
function contextOptions({ cert, key, clientCa, clientCrl }: ListenerTls): SecureContextOptions {
  const crl = clientCrl === undefined ? {} : { crl: clientCrl };
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION;
  return { cert, key, minVersion: 'TLSv1.2', secureOptions, ca: clientCa ?? [], ...crl };
}

/** Whether each handshake of this client would take too long: its own key, which it proves to have. */
function hasCostlyKey(socket: TLSSocket): boolean {
  const certificate = socket.getPeerX509Certificate();
  return certificate !== undefined && isCostlyKey(certificate.publicKey);
}
