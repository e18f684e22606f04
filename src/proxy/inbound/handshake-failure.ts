import { Socket } from 'node:net';
import type { HandshakeFailure, HandshakeFailureCause } from '../../observability/logger.ts';
import { errorCode } from '../../util/error-code.ts';

/** Ours, for what OpenSSL does not get to see. */
export const handshakeTooLarge = 'ERR_SSL_HANDSHAKE_TOO_LARGE';
/** Ours, for a key that OpenSSL accepts. */
export const clientKeyTooLarge = 'ERR_SSL_CLIENT_KEY_TOO_LARGE';

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
