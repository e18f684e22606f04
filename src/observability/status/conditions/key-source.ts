import type { StatusFacts } from '../facts.ts';
import { clockText, counted, secondsBetween, since, sourceName, span } from '../format.ts';
import { thresholds } from '../thresholds.ts';
import { because, type Conditions, checkOnline, failures } from './condition.ts';

const keepCache = 'Repair it, and do not restart: the cached keys would be lost.';

/** Whether keys can be read, and Vault signs. */
export const ofKeySource = {
  'key-source-down': {
    severity: 'bad',
    when: 'Vault or the key directory does not respond, rejects the login, or denies keys (a finding of its own).',
    find(facts) {
      const { type, address, state } = facts.keySource;
      if (state !== 'down' && !facts.health.reasons.includes('key-source-never-reached')) return undefined;
      const what = state === null ? 'has not responded since the start' : `unavailable${lastsSince(facts)}`;
      const summary = `${sourceName(type)} at ${address} ${what}`;
      if (facts.keys.total > 0) return { summary, state: ['Cached keys are still used.'] };
      const todo = `Repair it; no restart is needed. ${checkOnline}`;
      return { summary, state: ['No key is cached, so requests that need one fail.'], todo };
    },
    todo: keepCache,
    alert: 'CountersignKeySourceDown',
    core: true,
    title: '<instance> cannot read keys',
    ticket: `
        min by (namespace, release, instance) (countersign_key_source_up) == 0
          or
        max by (namespace, release, instance) (countersign_key_source_denied_logins) > 0`,
    for: '5m',
  },
  'key-source-denied': {
    severity: 'bad',
    when: 'Vault or the key directory denies reading the keys of logins in use.',
    find(facts) {
      const { type, state, deniedLogins, deniedLogin, cachedKeysExpireAt: end } = facts.keySource;
      if (state !== 'denied') return undefined;
      const { words, ...about } = loginsOf(deniedLogins, deniedLogin);
      const effect =
        facts.keys.total > 0
          ? `Cached keys sign until ${end === null ? '`keys.cache.staleIfError` has passed' : clockText(facts.at, end)}; requests of other logins that it denies fail.`
          : 'No key is cached, so requests of the logins that it denies fail.';
      const summary = `${sourceName(type)} denies reading the keys of ${words}${lastsSince(facts)}`;
      return { summary, state: [effect], ...about };
    },
    todo: '`countersign check --online --config FILE` says which path may not be read. Permit it; no restart is needed.',
    section: 'Keys denied',
  },
  'keys-unreadable': {
    when: 'Requests failed because keys cannot be read, and none are cached.',
    ...failures({ 'key-source-unavailable': 'keys cannot be read, and none are cached' }),
    todo: checkOnline,
    section: 'CountersignKeySourceDown',
  },
  'cached-keys-expiring': {
    severity: 'bad',
    when: 'Cached keys cannot be read again, and are soon no longer used (`keys.cache.staleIfError`).',
    find({ at, keySource: { cachedKeysExpireAt: end } }) {
      const seconds = end === null ? Number.POSITIVE_INFINITY : secondsBetween(at, end);
      if (seconds >= thresholds.cachedKeysSeconds) return undefined;
      const when = seconds > 0 ? `in ${span(seconds)}` : 'now';
      return { summary: `Cached keys that cannot be read again run out ${when}` };
    },
    todo: keepCache,
    alert: 'CountersignCachedKeysExpiring',
    core: true,
    title: 'Cached keys on <instance> run out in <value|humanizeDuration>',
    page: 'min by (namespace, release, instance) (countersign_cached_keys_remaining_seconds) < $cachedKeysSeconds',
    for: '5m',
  },
  'logins-not-found': {
    when: 'The key source does not know logins whose keys are cached, though it did not delete them.',
    find({ keySource: { type, loginsNotFound, loginNotFound } }) {
      if (loginsNotFound === 0) return undefined;
      const { words, ...about } = loginsOf(loginsNotFound, loginNotFound);
      const summary = `${sourceName(type)} does not know ${words} whose cached keys are used`;
      return { severity: loginsNotFound > 1 ? 'bad' : 'warn', summary, ...about };
    },
    todo: 'They sign until `keys.cache.staleIfError` has passed; a restart would lose them. Was the store moved, re-created or restored? To stop a login, delete all its versions, or its files.',
    alert: 'CountersignLoginsNotFound',
    title: 'The key source does not know <value|humanize> logins whose cached keys are used',
    page: 'max by (namespace, release) (countersign_key_logins_not_found) > 0',
    for: '2m',
  },
  'vault-token-expiring': {
    when: 'The Vault token was not renewed in time.',
    todo: 'Keys cannot be read until the login to Vault succeeds again.',
    alert: 'CountersignVaultTokenExpiring',
    title: 'The Vault token on <instance> ends in <value|humanizeDuration>',
    page: `
        (countersign_vault_token_expiry_timestamp_seconds - time())
          <
        clamp_max($tokenLeaseRatio * countersign_vault_token_lease_seconds, $tokenDays * 86400)`,
  },
  'signing-unavailable': {
    when: 'Vault does not sign with keys that it alone has. Only their requests fail; nothing is sent.',
    ...failures({ 'signing-unavailable': 'Vault does not sign with the private keys that it holds' }),
    todo: checkOnline,
    alert: 'CountersignSigningUnavailable',
    title: 'Vault does not sign for <environment>',
    page: `
        sum by (namespace, release, environment) (rate(countersign_transit_signature_duration_seconds_count{result=~"unavailable|denied"}[5m])) > 0
          unless sum by (namespace, release, environment) (rate(countersign_transit_signature_duration_seconds_count{result="ok"}[5m])) > 0`,
    for: '2m',
  },
} satisfies Conditions;

function lastsSince({ at, keySource: { since: from, problem } }: StatusFacts): string {
  return `${from === null ? '' : ` for ${since(at, from)}`}${because(problem)}`;
}

/** `login acme in sandbox` and the subject of a finding, or `3 logins, such as acme in sandbox,`. @param ref `sandbox/acme` */
function loginsOf(count: number, ref: string | null) {
  const [environment, login] = ref?.split('/') ?? [];
  if (environment === undefined || login === undefined) return { words: counted(count, 'login') };
  const name = `${login} in ${environment}`;
  if (count === 1) return { words: `login ${name}`, environment, login };
  return { words: `${counted(count, 'login')}, such as ${name},` };
}
