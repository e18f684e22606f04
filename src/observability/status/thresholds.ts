import { notableSkew } from '../../gateway/response.ts';
import type { StatusFacts } from './facts.ts';
import { secondsBetween } from './format.ts';

type Environment = StatusFacts['environments'][number];
type Certificate = StatusFacts['certificates'][number];

/** Severities, the most serious first: `bad` has to be dealt with now, `warn` soon, `info` is normal. */
export const severities = ['bad', 'warn', 'info'] as const;

export type Severity = (typeof severities)[number];

/** Limits of the alerts, some of them also of findings. The chart has them as values of the same names. */
export const thresholds = {
  gatewayRejectionsRatio: 0.02,
  gatewayRejectionsCount: 3,
  clockSkewSeconds: notableSkew,
  tokenLeaseRatio: 0.2,
  tokenDays: 7,
  certificateLifetimeRatio: 0.2,
  certificateDays: 7,
  keyMissingCount: 3,
  cachedKeysSeconds: 21_600,
  jwtKeysAgeSeconds: 3_600,
  keyAgeDays: 365,
  saturationRatio: 0.8,
  authorizationDenialsCount: 5,
  unknownCallersCount: 20,
  failureBudget: 0.001,
  failureCount: 5,
  latencyBudget: 0.01,
  latencyCount: 50,
} as const;

/** Failed requests that a status has at most. */
export const maxFailures = 100;
/** Payments of an environment whose outcome has to be queried that a status has at most. */
export const maxUncertainPayments = 1_000;

/** Seconds for which the last 429 of a caller is a finding. */
export const callerLimitedFor = 60;

/** Share of the requests of an environment from which failures of the last minute are bad. */
const failedRatio = 0.1;

export function saturation({ inFlight, maxInFlight }: Environment): 'bad' | 'warn' | 'ok' {
  if (inFlight >= maxInFlight) return 'bad';
  return inFlight > thresholds.saturationRatio * maxInFlight ? 'warn' : 'ok';
}

/** Bad if most responses are rejections: then it is not a single caller. */
export function rejections({ rejectedShare, allFail }: Environment): 'bad' | 'warn' | 'ok' {
  if (rejectedShare === null || rejectedShare <= thresholds.gatewayRejectionsRatio) return 'ok';
  return allFail || rejectedShare > 0.5 ? 'bad' : 'warn';
}

/** Seconds without the end of a request from which a gateway is silent. */
const silence = 4;

/** One request alone may be slow. */
export function silent({ inFlight, waiting }: Environment): 'bad' | 'warn' | 'ok' {
  if ((waiting ?? 0) < silence) return 'ok';
  return inFlight > 1 ? 'bad' : 'warn';
}

export function failing(failed: number): 'bad' | 'warn' {
  return failed >= failedRatio ? 'bad' : 'warn';
}

/** Whether the gateway rejects every login, so that it is not a key; with one login there is no telling. */
export function isBlocked({ logins: { accepted, rejected } }: Pick<Environment, 'logins'>): boolean {
  return rejected > 1 && accepted === 0;
}

/** Whether a rejection now says nothing about a key: a clock is off, or every login is rejected. */
export function isNoKey(heard: Pick<Environment, 'clockSkew' | 'logins'>): boolean {
  return clockDifference(heard) !== 'ok' || isBlocked(heard);
}

export function clockDifference({ clockSkew }: Pick<Environment, 'clockSkew'>): 'warn' | 'ok' {
  return Math.abs(clockSkew ?? 0) > thresholds.clockSkewSeconds ? 'warn' : 'ok';
}

/** Bad once it has ended. */
export function expiring(now: string, { from, until }: Certificate): 'bad' | 'warn' | 'ok' {
  const left = secondsBetween(now, until);
  const share = thresholds.certificateLifetimeRatio * secondsBetween(from, until);
  if (left <= 0) return 'bad';
  return left < Math.min(share, thresholds.certificateDays * 86_400) ? 'warn' : 'ok';
}
