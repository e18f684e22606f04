import { errorCode } from './error-code.ts';

/** Why a connection could not be established: a metric label value and a log field. */
export type NetworkFailure = 'dns' | 'refused' | 'timeout' | 'tls' | 'other';

export const networkFailures: readonly NetworkFailure[] = ['dns', 'refused', 'timeout', 'tls', 'other'];

/** Error codes of Node's resolver (`dns` module and getaddrinfo). */
const dns = /^(EAI_\w+|ENOTFOUND|ENODATA|ESERVFAIL|EREFUSED|ENONAME|EBADRESP)$/;
/** Error codes of Node's TLS and of OpenSSL's certificate verification (`X509_V_ERR_*` without the prefix). */
const tls =
  /^(ERR_TLS_|ERR_SSL_|ERR_OSSL_|EPROTO$|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH$|INVALID_(CA|PURPOSE)$|PATH_LENGTH_|ERROR_IN_CERT_|ERROR_IN_CRL_)/;

export function networkFailureOf(error: unknown): NetworkFailure {
  const code = errorCode(error) ?? '';
  if (dns.test(code)) return 'dns';
  if (tls.test(code)) return 'tls';
  if (code === 'ECONNREFUSED') return 'refused';
  return code === 'ETIMEDOUT' ? 'timeout' : 'other';
}

const prefixes: Readonly<Record<NetworkFailure, string>> = {
  dns: 'DNS: ',
  refused: 'connection refused: ',
  timeout: 'timeout: ',
  tls: 'TLS: ',
  other: '',
};

/** For the log: the kind of failure and the error code, without the message, which contains addresses. */
export function describeNetworkFailure(error: unknown): string {
  return `${prefixes[networkFailureOf(error)]}${errorCode(error) ?? 'no code'}`;
}
