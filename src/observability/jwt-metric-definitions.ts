import type { MetricFactory } from './metric-factory.ts';

export function jwtMetrics({ counter, gauge }: MetricFactory) {
  return {
    jwtVerifications: counter(
      'jwt_verifications_total',
      'JSON Web Tokens presented by callers, by issuer and result. issuer is none if no configured issuer made the token.',
      ['issuer', 'result'],
    ),
    jwtKeysFetched: gauge(
      'jwt_keys_fetched_timestamp_seconds',
      'Time of the last successful fetch of the public keys of a JWT issuer, in seconds since 1970. 0 before the first one.',
      ['issuer'],
    ),
  };
}
