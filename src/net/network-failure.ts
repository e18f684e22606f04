import { errorCode } from '../errors.ts';

/** Why a connection to a server could not be established, and how the log says it. */
const serverFailures = {
  dns: 'DNS: ',
  refused: 'connection refused: ',
  timeout: 'timeout: ',
  tls: 'TLS: ',
  other: '',
} as const;

/** Why an egress proxy made no tunnel, and how the log says it. */
const egressProxyFailures = {
  /** DNS, refused, or ended before its response. */
  'proxy-unreachable': 'egress proxy unreachable: ',
  'proxy-timeout': 'egress proxy: timeout: ',
  'proxy-tls': 'TLS with the egress proxy: ',
  /** Status 407 or 401, or no password could be read. */
  'proxy-credentials': 'egress proxy did not accept the credentials: ',
  /** Any other status from 300 to 499. */
  'proxy-denied': 'egress proxy denied the tunnel: ',
  /** Status 500 or higher: it could not reach the server. */
  'proxy-failed': 'egress proxy could not reach the server: ',
  /** Its response is not valid, or has bytes behind it. */
  'proxy-invalid': 'egress proxy sent an invalid response: ',
} as const;

const allFailures = { ...serverFailures, ...egressProxyFailures };

export type EgressProxyFailure = keyof typeof egressProxyFailures;

/** A metric label value and a log field. */
export type NetworkFailure = keyof typeof allFailures;

/** What can happen to a connection, made directly or through an egress proxy. */
export function networkFailures(egressProxy: boolean): readonly string[] {
  return Object.keys(egressProxy ? allFailures : serverFailures);
}

/** No connection, for a known reason. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  readonly failure: NetworkFailure;

  /** @param note for the log: a status or an error code, never anything that was received */
  constructor(failure: NetworkFailure, note: string) {
    super(note);
    this.failure = failure;
  }
}

/** Error codes of Node's resolver (`dns` module and getaddrinfo). */
const dns = /^(EAI_\w+|ENOTFOUND|ENODATA|ESERVFAIL|EREFUSED|ENONAME|EBADRESP)$/;
/** Error codes of Node's TLS and of OpenSSL's certificate verification (`X509_V_ERR_*` without the prefix). */
const tls =
  /^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|EPROTO$|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH$|INVALID_(CA|PURPOSE)$|PATH_LENGTH_|ERROR_IN_CERT_|ERROR_IN_CRL_)/;

export function networkFailureOf(error: unknown): NetworkFailure {
  if (error instanceof ConnectionError) return error.failure;
  const code = errorCode(error) ?? '';
  if (dns.test(code)) return 'dns';
  if (tls.test(code)) return 'tls';
  if (code === 'ECONNREFUSED') return 'refused';
  return code === 'ETIMEDOUT' ? 'timeout' : 'other';
}

/** For the log: the kind of failure and the error code, without the message of Node, which contains addresses. */
export function describeNetworkFailure(error: unknown): string {
  const note = error instanceof ConnectionError ? error.message : (errorCode(error) ?? 'no code');
  return `${allFailures[networkFailureOf(error)]}${note}`;
}
