import type { Random } from '../support/random.ts';
import type { Tally } from './tally.ts';

/** What an attacker, or the victim, knows of the attacked process. */
export interface Target {
  readonly url: string;
  readonly adminUrl: string;
  /** PEM of the CA of its certificate, with TLS. */
  readonly ca: string | undefined;
  /** URL of the issuer whose tokens it accepts. */
  readonly issuer: string;
  /** How many logins have keys: `login-0` and so on, at the endpoints from 1000. */
  readonly logins: number;
  /** Whether it accepts requests without credentials. */
  readonly anonymous: boolean;
}

/** Continues until its process is ended. */
export type Attack = (target: Target, random: Random, tally: Tally) => Promise<unknown>;

/** The login whose secret is too large, with keys in Vault. */
export const oversizedLogin = 'oversized';
/** The kid under which the issuer publishes a key with a huge exponent. */
export const slowKid = 'slow';
/** The beginning of what the attacker reports if it got through. */
export const breach = 'BREACH';
