import type { TLSSocket } from 'node:tls';
import { errorCode } from '../errors.ts';

/** What a TLS handshake was about when it failed. */
export type TlsProblem = (typeof tlsProblems)[number];

export const tlsProblems = ['version', 'cipher', 'certificate', 'other'] as const;

/** What a complete handshake came to, in the names of OpenSSL. */
export interface TlsSession {
  readonly version: string;
  readonly cipher: string;
  /** Address of a client. */
  readonly peer?: string | undefined;
}

export interface TlsFailure {
  readonly problem: TlsProblem;
  /** For the log: never anything that was received. */
  readonly cause: string;
  /** Address of a client. */
  readonly peer?: string | undefined;
}

/** Observes the TLS connections with certain peers. */
export interface TlsObserver {
  connected(session: TlsSession): void;
  failed(failure: TlsFailure): void;
}

/**
 * By the names of OpenSSL and Node, which differ between versions in their beginning. Which suites fit depends on the
 * groups and signatures of both ends too. With TLS 1.2, some servers send the alert `handshake failure` also to a client
 * without a certificate; there the two look the same.
 */
const problems: readonly (readonly [RegExp, TlsProblem])[] = [
  [/_(UNSUPPORTED_PROTOCOL|ALERT_PROTOCOL_VERSION|INAPPROPRIATE_FALLBACK)$/, 'version'],
  [
    /_(NO_SHARED_(CIPHER|GROUP|SIGNATURE_ALGORITHMS)|NO_SUITABLE_(KEY_SHARE|GROUPS|SIGNATURE_ALGORITHM)|ALERT_(HANDSHAKE_FAILURE|INSUFFICIENT_SECURITY))$/,
    'cipher',
  ],
  [/CERT|_UNKNOWN_CA$|^(CRL_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_|PATH_LENGTH_)/, 'certificate'],
];

/** @returns `undefined` for an error that is not of TLS */
export function tlsProblemOf(error: Error): TlsProblem | undefined {
  const code = codeOf(error);
  const known = problems.find(([pattern]) => pattern.test(code))?.[1];
  return known ?? (/^(ERR_SSL_|ERR_TLS_|EPROTO$)/.test(code) ? 'other' : undefined);
}

/** OpenSSL's text for an error has its name in another form, and is all there is where a write was pending. */
function codeOf(error: Error): string {
  const code = errorCode(error) ?? '';
  if (code !== 'EPROTO') return code;
  const [, reason] = /:SSL routines:[^:]*:([\w/ -]{1,60}):/.exec(error.message.slice(0, 500)) ?? [];
  return reason === undefined ? code : `ERR_SSL_${reason.toUpperCase().replaceAll(' ', '_')}`;
}

export function sessionOf(socket: TLSSocket): TlsSession {
  return { version: socket.getProtocol() ?? 'none', cipher: socket.getCipher().name };
}

/** Observes a connection to a server. */
export function observeTls(socket: TLSSocket, observer: TlsObserver): void {
  socket.once('secureConnect', () => observer.connected(sessionOf(socket)));
  socket.once('error', (error) => {
    const problem = tlsProblemOf(error);
    if (problem !== undefined) observer.failed({ problem, cause: codeOf(error) });
  });
}
