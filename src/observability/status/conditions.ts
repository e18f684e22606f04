import {
  because,
  byEnvironment,
  type Check,
  failures,
  lastsSince,
  likelierClock,
  loginsOf,
  quiet,
  reset,
  unreachable,
} from './condition-checks.ts';
import type { FailureCause } from './facts.ts';
import { clockText, counted, percent, secondsBetween, since, sourceName, span } from './format.ts';
import { keysWith, missing, rejected, unusable, waiting } from './key-checks.ts';
import {
  callerLimitedFor,
  clockDifference,
  expiring,
  isBlocked,
  isNoKey,
  maxUncertainPayments,
  rejections,
  type Severity,
  saturation,
  silent,
  thresholds,
} from './thresholds.ts';

/** Something that operators have to know of: a finding of the status, an alert, or both. */
export interface Condition {
  /** Of its findings; absent: it depends. */
  readonly severity?: Severity;
  /** What it is. */
  readonly when: string;
  /** What to do about it. */
  readonly todo: string;
  /** Heading in deploy/runbook.md; unless given, the name of the alert. */
  readonly section?: string;
  /** Causes of failed requests to which the section applies. */
  readonly causes?: readonly string[];
  /** What a status says about it while it holds. */
  readonly find?: Check;
  readonly alert?: `Countersign${string}`;
  /** One of those that the chart has without `prometheusRule.allAlerts`. */
  readonly core?: true;
  /** Of the alert. `<name>` is a label, `<value|function>` the value of the expression. */
  readonly title?: string;
  /** PromQL of what needs action now. `$name` is a threshold. */
  readonly page?: string;
  /** PromQL of what needs action in working hours. */
  readonly ticket?: string;
  readonly for?: string;
  readonly keepFiringFor?: string;
}

const keepCache = 'Repair it, and do not restart: the cached keys would be lost.';
const checkOnline = '`countersign check --online` says what fails.';

/**
 * Everything that operators have to know of, by its stable code, the most serious first. Findings, alert rules and the
 * index of the runbook are made from it.
 */
export const conditions = {
  'outcome-unknown': {
    severity: 'bad',
    when: 'A payment was sent, and no complete response or a 5xx came back: it may have been processed. A finding has those of the last hour.',
    todo: 'Query the order status of each, and do not send it again before that: `countersign status --json | countersign payments query`.',
    find({ at, uncertainPayments: list }) {
      return byEnvironment(list, (payments, newest, environment) => {
        const [login = null, ...others] = new Set(payments.map((one) => one.login));
        const answered = payments.filter(({ outcome }) => outcome === 'answered').length;
        const how = [
          ...(answered < payments.length ? ['sent without a complete response'] : []),
          ...(answered > 0 ? ['answered with a server error'] : []),
        ];
        const more =
          payments.length < maxUncertainPayments ? '' : 'There may be more: the log has all of them.';
        return {
          summary: `${counted(payments.length, 'payment')} of ${environment ?? 'an unknown environment'} in the last hour ${how.join(', or ')}`,
          state: [quiet(at, newest.at), 'Each may have been processed.', more],
          login: others.length === 0 ? login : null,
          payments,
        };
      });
    },
    alert: 'CountersignOutcomeUnknown',
    core: true,
    title: 'Unknown outcome of <operation> in <environment>',
    page: `
        sum by (namespace, release, environment, operation) (
          increase(countersign_request_outcomes_total{outcome="unknown", fault!="caller"}[10m])
        ) > 0
          and sum by (namespace, release, environment, operation) (countersign_payment_server_errors_total)
          or
        sum by (namespace, release, environment, operation) (increase(countersign_payment_server_errors_total[10m])) > 0`,
    keepFiringFor: '30m',
  },
  'order-mismatch': {
    when: 'A response is about another order than its request. Warn, and no alert: about another amount or currency.',
    todo: 'Query the status of these orders before anybody acts on such a response, and ask the support of the gateway.',
    find: ({ orderMismatches }) =>
      byEnvironment(orderMismatches, (responses, { operation, requestId, field }, environment) => {
        const severity = responses.some((response) => response.field === 'order-id') ? 'bad' : 'warn';
        const about = severity === 'bad' ? 'order' : 'amount or currency';
        return {
          severity,
          summary: `${counted(responses.length, 'response')} of ${environment} in the last hour about another ${about} than the request`,
          state: [`The last one: ${field} of ${operation}, request ${requestId}.`],
        };
      }),
    alert: 'CountersignOrderMismatch',
    title: 'Responses of <environment> are about other orders',
    page: 'sum by (namespace, release, environment) (increase(countersign_order_mismatches_total{field="order-id"}[10m])) > 0',
    keepFiringFor: '30m',
  },
  down: {
    when: 'Prometheus cannot scrape an instance, or finds none of a release that it scraped in the last 6 hours.',
    todo: 'If requests work, repair the scrape; otherwise find out why the process does not run.',
    alert: 'CountersignDown',
    core: true,
    title: 'Countersign is down <instance>',
    page: `
        up{job="countersign"} == 0
          or
        count by (namespace, release) (last_over_time(countersign_build_info[6h])) unless on (namespace, release) up{job="countersign"}
          or
        absent(up{job="countersign"} or last_over_time(countersign_build_info[6h]))`,
    for: '3m',
  },
  draining: {
    severity: 'bad',
    when: 'The instance is shutting down.',
    todo: 'Requests in flight are finished; new ones belong to another instance.',
    section: 'Shutting down',
    causes: ['shutting-down'],
    find: ({ health: { reasons } }) =>
      reasons.includes('draining') ? { summary: 'Shutting down' } : undefined,
  },
  'audit-unavailable': {
    when: 'Audit records cannot be written, or were lost.',
    todo: 'Check space, permissions and the largest size of a file (EFBIG) of the audit folder.',
    causes: ['audit-unavailable'],
    find({ health: { reasons }, audit }) {
      const required = reasons.includes('audit-unavailable');
      if (!required && audit?.up !== false) return undefined;
      const summary = `Audit records cannot be written${because(audit?.problem)}`;
      return required
        ? { severity: 'bad', summary, state: ['Nothing is sent without them.'] }
        : { severity: 'warn', summary, state: ['They wait in memory, and are lost when it is full.'] };
    },
    alert: 'CountersignAuditUnavailable',
    core: true,
    title: '<instance> cannot write audit records',
    page: `
        min by (namespace, release, instance) (countersign_audit_up) == 0
          or
        sum by (namespace, release, instance) (increase(countersign_audit_records_lost_total[10m])) > 0`,
    for: '2m',
  },
  'claims-unavailable': {
    severity: 'bad',
    when: 'The store of `payments.once` takes no claim: payments are not sent.',
    todo: `${checkOnline} Queries go on; no restart is needed.`,
    causes: ['claims-unavailable'],
    find: ({ claims }) =>
      claims?.up === false
        ? { summary: `Order IDs cannot be claimed${because(claims.problem)}`, state: ['No payment is sent.'] }
        : undefined,
    alert: 'CountersignClaimsUnavailable',
    title: '<instance> cannot claim order IDs',
    page: 'min by (namespace, release, instance) (countersign_claim_store_up) == 0',
    for: '2m',
  },
  'key-source-down': {
    severity: 'bad',
    when: 'Vault or the key directory does not respond, rejects the login, or denies keys (a finding of its own).',
    todo: keepCache,
    find(facts) {
      const { type, address, state } = facts.keySource;
      if (state !== 'down' && !facts.health.reasons.includes('key-source-never-reached')) return undefined;
      const what = state === null ? 'has not responded since the start' : `unavailable${lastsSince(facts)}`;
      const summary = `${sourceName(type)} at ${address} ${what}`;
      if (facts.keys.total > 0) return { summary, state: ['Cached keys are still used.'] };
      const todo = `Repair it; no restart is needed. ${checkOnline}`;
      return { summary, state: ['No key is cached, so requests that need one fail.'], todo };
    },
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
    todo: '`countersign check --online` says which path may not be read. Permit it; no restart is needed.',
    section: 'Keys denied',
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
  },
  'keys-unreadable': {
    when: 'Requests failed because keys cannot be read, and none are cached.',
    todo: checkOnline,
    section: 'CountersignKeySourceDown',
    ...failures({ 'key-source-unavailable': 'keys cannot be read, and none are cached' }),
  },
  'cached-keys-expiring': {
    severity: 'bad',
    when: 'Cached keys cannot be read again, and are soon no longer used (`keys.cache.staleIfError`).',
    todo: keepCache,
    find({ at, keySource: { cachedKeysExpireAt: end } }) {
      const seconds = end === null ? Number.POSITIVE_INFINITY : secondsBetween(at, end);
      if (seconds >= thresholds.cachedKeysSeconds) return undefined;
      const when = seconds > 0 ? `in ${span(seconds)}` : 'now';
      return { summary: `Cached keys that cannot be read again run out ${when}` };
    },
    alert: 'CountersignCachedKeysExpiring',
    core: true,
    title: 'Cached keys on <instance> run out in <value|humanizeDuration>',
    page: 'min by (namespace, release, instance) (countersign_cached_keys_remaining_seconds) < $cachedKeysSeconds',
    for: '5m',
  },
  'logins-not-found': {
    when: 'The key source does not know logins whose keys are cached, though it did not delete them.',
    todo: 'They sign until `keys.cache.staleIfError` has passed; a restart would lose them. Was the store moved, re-created or restored? To stop a login, delete all its versions, or its files.',
    find({ keySource: { type, loginsNotFound, loginNotFound } }) {
      if (loginsNotFound === 0) return undefined;
      const { words, ...about } = loginsOf(loginsNotFound, loginNotFound);
      const summary = `${sourceName(type)} does not know ${words} whose cached keys are used`;
      return { severity: loginsNotFound > 1 ? 'bad' : 'warn', summary, ...about };
    },
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
    todo: checkOnline,
    ...failures({ 'signing-unavailable': 'Vault does not sign with the private keys that it holds' }),
    alert: 'CountersignSigningUnavailable',
    title: 'Vault does not sign for <environment>',
    page: `
        sum by (namespace, release, environment) (rate(countersign_transit_signature_duration_seconds_count{result=~"unavailable|denied"}[5m])) > 0
          unless sum by (namespace, release, environment) (rate(countersign_transit_signature_duration_seconds_count{result="ok"}[5m])) > 0`,
    for: '2m',
  },
  failing: {
    when: 'More requests fail than the SLO allows: the error budget of the month is used up in days (page), or before its end (ticket).',
    todo: 'The findings of the status say why.',
    alert: 'CountersignErrorBudgetBurn',
    core: true,
    title: '<value|humanizePercentage> of the requests to <environment> fail',
    ...burn('failures', '$failureBudget', 'failures:increase6h >= $failureCount'),
  },
  slow: {
    when: 'More requests take longer than 2.5 s than the SLO allows.',
    todo: 'Is the gateway slow, or Countersign? Compare the duration of both.',
    alert: 'CountersignLatencyBudgetBurn',
    title: '<value|humanizePercentage> of the requests to <environment> take longer than 2.5 s',
    ...burn('slow', '$latencyBudget', 'requests:increase6h >= $latencyCount'),
  },
  'gateway-unreachable': {
    when: 'Requests failed without a connection to the gateway. Nothing was sent.',
    todo: 'The log has the code.',
    section: 'Gateway unreachable',
    ...failures({ 'gateway-unreachable': unreachable }),
  },
  'gateway-silent': {
    when: 'Requests are in flight, and for 4 s none has ended; warn: a single one.',
    todo: 'Either the gateway does not respond, or keys cannot be read; they fail when `timeouts.request` has passed. `countersign check --online` says which.',
    section: 'No complete gateway response',
    // Said before the requests fail, which takes as long as `timeouts.request`.
    find: ({ environments }) =>
      environments.map((one) => {
        const { name: environment, inFlight, waiting: seconds } = one;
        const severity = silent(one);
        if (severity === 'ok') return undefined;
        const wait = `${counted(inFlight, 'request')} ${inFlight === 1 ? 'waits' : 'wait'}`;
        const summary = `${environment}: no request has ended for ${span(seconds ?? 0)}, and ${wait}`;
        return { severity, summary, environment };
      }),
  },
  'gateway-timeout': {
    when: 'The gateway did not respond in time.',
    todo: 'The limit is `timeouts.request`. Ask the support of the gateway: nothing in Countersign makes it faster.',
    section: 'No complete gateway response',
    ...failures({ 'gateway-timeout': 'the gateway does not respond in time' }),
  },
  'gateway-response-incomplete': {
    when: 'A response of the gateway was not complete, or not valid HTTP.',
    todo: 'Look for a proxy or load balancer on the way, and ask the support of the gateway.',
    section: 'No complete gateway response',
    ...failures({
      'gateway-reset': reset,
      'gateway-reply-invalid':
        'the gateway sends responses that are not valid HTTP, or of payments without a length',
    }),
  },
  'gateway-server-error': {
    when: 'The gateway responded with a 5xx.',
    todo: 'Ask the support of the gateway, with the times of the log and its serial numbers, where it sent some.',
    section: 'Gateway server error',
    ...failures({ 'gateway-status': 'the gateway responds with server errors' }),
  },
  'internal-error': {
    when: 'Requests failed because of a defect of Countersign.',
    todo: 'The log has a line for each, with the stack: give it to the developers.',
    section: 'Internal error',
    ...failures({ internal: 'internal error' }),
  },
  saturated: {
    when: "More than 80 % of an environment's requests in flight are used, or requests were rejected as `overloaded`.",
    todo: 'Is the gateway slow? Otherwise add instances or raise `maxInFlight`.',
    causes: ['overloaded'],
    find: ({ at, environments }) =>
      environments.map((one) => {
        const { name: environment, inFlight, maxInFlight } = one;
        const rejected = one.failures.find(({ cause }) => cause === 'overloaded');
        const severity = rejected === undefined ? saturation(one) : 'bad';
        if (severity === 'ok') return undefined;
        const isFull = inFlight >= maxInFlight;
        const is = isFull ? 'is at' : rejected ? 'was at' : 'is near';
        const also = rejected ? `, and ${counted(rejected.count, 'request')} got 503 in the last minute` : '';
        const other =
          'Or it was `signing.maxQueue` or `proxy.maxBufferedBytes`: `detail` of the 503 says which.';
        const state = [
          rejected ? quiet(at, rejected.lastAt) : '',
          `${inFlight} of ${maxInFlight} requests in flight; beyond the limit callers get 503.`,
          rejected && !isFull ? other : '',
        ];
        return { severity, summary: `${environment} ${is} its limit${also}`, state, environment };
      }),
    alert: 'CountersignSaturated',
    core: true,
    title: '<environment> on <instance> is near its limit of requests in flight',
    page: 'max by (namespace, release, environment, instance) (countersign_requests_in_flight / countersign_requests_in_flight_limit) > $saturationRatio',
    for: '5m',
  },
  'clock-skew': {
    when: 'The clocks of gateway and instance differ by more than 30 s.',
    todo: 'Either one may be off. If the time synchronization of this machine is right, or other instances show the same, ask the support of the gateway.',
    causes: ['clock-skew'],
    find: ({ environments }) =>
      environments.map((one) => {
        if (clockDifference(one) === 'ok') return undefined;
        const { name: environment, clockSkew, rejectedShare } = one;
        const rejected = rejections(one);
        const effect =
          rejected === 'ok'
            ? 'The gateway may reject timestamps.'
            : `${percent(rejectedShare ?? 0)} of responses are 401 or 403, probably for that reason and not because of a key.`;
        const skew = clockSkew ?? 0;
        const summary = `The clock of the gateway of ${environment} is ${span(Math.abs(skew))} ${skew > 0 ? 'ahead of' : 'behind'} that of this machine`;
        const severity = rejected === 'bad' ? 'bad' : 'warn';
        return { severity, summary, state: [effect], todo: likelierClock(one, environments), environment };
      }),
    alert: 'CountersignClockSkew',
    title: 'The clocks of <instance> and of the gateway of <environment> differ by <value|humanizeDuration>',
    page: `
        max by (namespace, release, environment, instance) (
          abs(quantile_over_time(0.5, countersign_gateway_clock_skew_seconds[10m]))
        ) > $clockSkewSeconds`,
    for: '5m',
  },
  'gateway-blocks': {
    severity: 'bad',
    when: 'For a minute, the gateway rejects every login of an environment, at least two.',
    todo: 'Unless they all have one key, it is not a key: the gateway blocks this instance, or `baseUrl` is another environment, or something on the way changes requests. Do not store new keys. Ask the support of the gateway.',
    section: 'Gateway rejects every login',
    find: ({ environments }) =>
      environments.map((one) => {
        if (clockDifference(one) !== 'ok' || !isBlocked(one)) return undefined;
        const { name: environment, logins } = one;
        const summary = `The gateway of ${environment} responds with 401 or 403 to every login (${logins.rejected} in the last minute)`;
        return { summary, environment };
      }),
  },
  'key-rejected': {
    severity: 'bad',
    when: 'The gateway rejected the key that signs, and has not accepted it since.',
    todo: 'If the gateway has a new key, store it in the key source: Countersign looks for it each second while there are requests.',
    section: 'CountersignGatewayRejections',
    find: keysWith(rejected),
  },
  'gateway-rejections': {
    when: 'More than 2 % of the responses to a login (finding: of an environment) are 401 or 403.',
    todo: 'Compare the fingerprint of the key with what the gateway has: `countersign keys verify`.',
    causes: ['current-key', 'other-key'],
    // While a clock is off, or every login is rejected, that is the finding.
    find: ({ environments }) =>
      environments.map((one) => {
        const severity = rejections(one);
        if (severity === 'ok' || isNoKey(one)) return undefined;
        const { name: environment, rejectedShare, allFail, logins } = one;
        const { rejected, rejectedNames } = logins;
        const [login = null] = rejected === 1 ? rejectedNames : [];
        const others = rejected - rejectedNames.length;
        const more = others > 0 ? ` and ${counted(others, 'other login')}` : '';
        const names = rejectedNames.length === 0 ? '' : `, last of ${rejectedNames.join(', ')}${more}`;
        const summary = `${percent(rejectedShare ?? 0)} of responses from ${environment} are 401 or 403${allFail ? ', and now every request fails' : ''}${names}`;
        return { severity, summary, environment, login };
      }),
    alert: 'CountersignGatewayRejections',
    core: true,
    title: 'The gateway of <environment> rejects requests of <login>',
    page: `
        (
          sum by (namespace, release, environment, login) (rate(countersign_login_requests_total{result="rejected"}[10m]))
            /
          sum by (namespace, release, environment, login) (rate(countersign_login_requests_total{result=~"rejected|other"}[10m]))
        ) > $gatewayRejectionsRatio
          and
        sum by (namespace, release, environment, login) (increase(countersign_login_requests_total{result="rejected"}[10m])) >= $gatewayRejectionsCount`,
    for: '5m',
  },
  'key-missing': {
    when: 'A login has no usable key. A finding also if the newest version was deleted, and an older one still signs.',
    todo: 'Store it in the key source; Countersign reads it within a minute.',
    ...failures({ 'key-missing': (kind) => [`a login has no ${keyOf(kind)}`] }, keysWith(missing)),
    alert: 'CountersignKeyMissing',
    core: true,
    title: 'No usable key of <login> in <environment>',
    ticket:
      'sum by (namespace, release, environment, login) (increase(countersign_login_requests_total{result="no-key"}[15m])) >= $keyMissingCount',
    for: '1m',
  },
  'key-unusable': {
    when: 'The newest version of a key cannot be used, or lacks it. An older one signs, if there is one.',
    todo: 'Store a correct key as a new version.',
    ...failures(
      { 'key-unusable': (kind) => [`the ${keyOf(kind)} of a login cannot be used`] },
      keysWith(unusable),
    ),
    alert: 'CountersignKeyUnusable',
    title: 'The newest <kind> of <login> in <environment> cannot be used',
    ticket: 'max by (namespace, release, environment, login, kind) (countersign_key_unusable_versions) > 0',
    for: '1m',
  },
  'key-waiting': {
    severity: 'info',
    when: 'A new version of a key waits for the gateway. The alert: for 2 hours.',
    todo: 'Has the gateway the new public key? `countersign keys verify` shows which versions it accepts.',
    find: keysWith(waiting),
    alert: 'CountersignRotationStuck',
    title: 'The rotation of the <kind> of <login> in <environment> is not finished',
    ticket: `
        max by (namespace, release, environment, login, kind) (countersign_key_version)
          - max by (namespace, release, environment, login, kind) (countersign_key_signing_version) > 0`,
    for: '2h',
  },
  'key-rotation-due': {
    when: 'The latest version of a key in use is older than a year.',
    todo: 'Rotate it.',
    alert: 'CountersignKeyRotationDue',
    title: 'The <kind> of <login> in <environment> is <value|humanizeDuration> old',
    ticket:
      'time() - max by (namespace, release, environment, login, kind) (countersign_key_created_timestamp_seconds) > $keyAgeDays * 86400',
    for: '1h',
  },
  'keys-stale': {
    severity: 'warn',
    when: 'Cached keys could not be read again although the key source is up.',
    todo: `Cached keys sign until \`keys.cache.staleIfError\` has passed. ${checkOnline}`,
    section: 'Keys cannot be read',
    // While the key source is down, denies keys, or does not know all of these logins, that is the finding.
    find({ keySource: { state, loginsNotFound }, keys: { list } }) {
      const stale = list.filter(({ staleSince }) => staleSince !== null);
      const logins = new Set(stale.map(({ environment, login }) => `${environment}/${login}`));
      const [first] = stale;
      if (first === undefined || state === 'down' || state === 'denied' || logins.size <= loginsNotFound)
        return undefined;
      const { environment, login, readProblem } = stale.find((one) => one.readProblem !== null) ?? first;
      const which =
        stale.length === 1
          ? `The key of ${login} in ${environment}`
          : `${counted(stale.length, 'cached key')}, such as of ${login} in ${environment},`;
      return { summary: `${which} could not be read again${because(readProblem)}`, environment, login };
    },
  },
  'certificate-expiring': {
    when: 'A certificate has expired, or has less than a fifth of its lifetime or 7 days left.',
    todo: 'Renew it and replace the file; no restart is needed.',
    find: ({ at, certificates }) =>
      certificates.map((one) => {
        const severity = expiring(at, one);
        if (severity === 'ok') return undefined;
        const { name, environment, until } = one;
        const when = severity === 'bad' ? 'has expired' : `expires in ${since(until, at)}`;
        return { severity, summary: `Certificate ${name}${ofEnvironment(environment)} ${when}`, environment };
      }),
    alert: 'CountersignCertificateExpiring',
    core: true,
    title:
      'The certificate <certificate> on <instance> (environment <environment>) ends in <value|humanizeDuration>',
    page: `
        (countersign_certificate_expiry_timestamp_seconds - time())
          <
        clamp_max(
          $certificateLifetimeRatio * (countersign_certificate_expiry_timestamp_seconds - countersign_certificate_not_before_timestamp_seconds),
          $certificateDays * 86400
        )`,
    for: '5m',
  },
  'certificate-files-unusable': {
    severity: 'warn',
    when: 'Certificate files were replaced by files that cannot be used.',
    todo: 'The previous ones are in use. Correct the files; no restart is needed.',
    section: 'CountersignCertificateExpiring',
    // One for the files of a port or a server, however many certificates are in them.
    find: ({ certificates }) =>
      [...Map.groupBy(certificates, ({ problem }) => problem)].map(([problem, [first]]) => {
        if (problem === null || first === undefined) return undefined;
        const { name, environment } = first;
        const summary = `New certificate files of ${name}${ofEnvironment(environment)} cannot be used${because(problem)}`;
        return { summary, environment };
      }),
  },
  'jwt-keys-stale': {
    when: 'The keys of a JWT issuer cannot be fetched. Warn: the previous ones are still used.',
    todo: '`countersign check --online` fetches them and says what fails.',
    causes: ['issuer-unavailable'],
    find: ({ jwtIssuers }) =>
      jwtIssuers.map(({ name, available, problem }) => {
        if (available && problem === null) return undefined;
        const summary = `The keys of the JWT issuer ${name} cannot be fetched: ${problem ?? 'not tried yet'}`;
        const previous = 'The previous ones are used until `maxStale` of the issuer has passed.';
        const effect = available ? previous : 'Callers with its tokens are rejected.';
        return { severity: available ? 'warn' : 'bad', summary, state: [effect] };
      }),
    alert: 'CountersignJwtKeysStale',
    title: 'The keys of the JWT issuer <issuer> cannot be fetched on <instance>',
    ticket: 'time() - countersign_jwt_keys_fetched_timestamp_seconds > $jwtKeysAgeSeconds',
    for: '5m',
  },
  'caller-limited': {
    severity: 'warn',
    when: 'A caller got 429 in the last minute, because of its `maxInFlight`.',
    todo: 'Nothing was sent for these, and other callers are not affected. Does it send more than it should, or is the gateway slow? Otherwise raise `maxInFlight` of the caller.',
    section: 'Caller limit',
    causes: ['caller-limit'],
    find: ({ at, callers }) =>
      callers.map(({ name: caller, limited, limitedAt }) => {
        if (limitedAt === null || secondsBetween(limitedAt, at) >= callerLimitedFor) return undefined;
        const summary = `${caller} sends more requests at a time than its limit allows: ${counted(limited, 'request')} got 429 since the start, the last one ${since(at, limitedAt)} ago`;
        return { summary, caller };
      }),
  },
  'caller-denied': {
    when: 'A caller often requests what it has no grant for, or credentials are unknown (caller none).',
    todo: 'Add the grant, or find out who that is.',
    causes: ['not-allowed', 'caller-unknown'],
    alert: 'CountersignAuthorizationDenials',
    title: '<value|humanize> requests of <caller> in 15 minutes were denied',
    ticket: `
        sum by (namespace, release, caller) (increase(countersign_authorization_decisions_total{decision="denied"}[15m])) >= $authorizationDenialsCount
          or
        sum by (namespace, release, caller) (increase(countersign_requests_total{reason="caller-unknown"}[15m])) >= $unknownCallersCount`,
  },
  'caller-dry-run': {
    severity: 'warn',
    when: 'A caller is in dry-run: its grants are not enforced.',
    todo: 'Set `enforce` when the log has no more requests with the decision `would-deny`.',
    section: 'CountersignAuthorizationDenials',
    // One for all callers: the remedy is the same.
    find({ callers }) {
      const [first, ...others] = callers.filter(({ mode }) => mode === 'dry-run');
      if (first === undefined) return undefined;
      const { name: caller } = first;
      const more = others.length === 0 ? '' : ` and ${counted(others.length, 'other caller')}`;
      return { summary: `Every request of ${caller}${more} is let through: mode is dry-run`, caller };
    },
  },
  'log-lines-dropped': {
    severity: 'warn',
    when: 'Log lines were dropped or wait: standard output does not accept them.',
    todo: 'Requests are processed. Check where standard output goes: a full disk, or a log collector that has stopped.',
    find({ health: { warnings } }) {
      if (warnings.includes('log-stalled'))
        return { summary: 'The log cannot be written, because standard output accepts no lines' };
      return warnings.includes('log-lines-dropped')
        ? { summary: 'Log lines were dropped, because standard output did not accept them' }
        : undefined;
    },
    alert: 'CountersignLogLinesDropped',
    title: '<instance> drops log lines',
    page: 'sum by (namespace, release, instance) (increase(countersign_log_lines_dropped_total[10m])) > 0',
    keepFiringFor: '10m',
  },
  'spans-dropped': {
    when: 'Spans are not delivered. Requests are not affected.',
    todo: 'The log has the cause.',
    alert: 'CountersignSpansDropped',
    title: '<instance> does not deliver traces',
    ticket:
      'sum by (namespace, release, instance) (increase(countersign_spans_total{result!="exported"}[15m])) > 0',
    for: '15m',
  },
  'config-reload-failed': {
    severity: 'warn',
    when: 'The last reload failed or requires a restart.',
    todo: 'The previous one is in effect. The log says what is wrong, or that a restart is required.',
    find: ({ config }) =>
      config.reloadFailed ? { summary: 'The configuration was not reloaded' } : undefined,
    alert: 'CountersignConfigReloadFailed',
    title: 'The configuration file on <instance> is not in effect',
    ticket: 'min by (namespace, release, instance) (countersign_config_last_reload_successful) == 0',
    for: '5m',
  },
} satisfies Readonly<Record<string, Condition>>;

/** Of those that a status can have as a finding. */
export const findingCodes = Object.entries<Condition>(conditions)
  .flatMap(([code, { find }]) => (find === undefined ? [] : [code]))
  .filter((code): code is keyof typeof conditions => code in conditions);

/** Of causes that are no condition: the caller has to act. */
const sections: Partial<Record<FailureCause, string>> = {
  'duplicate-payment': 'Repeated payment',
  'order-id-reused': 'Repeated payment',
  'request-timeout': 'Incomplete request',
  'caller-gone': 'Incomplete request',
};

/** Heading of the section of the runbook. */
export function sectionOf({ section, alert }: Condition): string {
  return section ?? alert ?? '';
}

/** The same for failed requests, by their cause. */
export function sectionOfCause(cause: FailureCause): string {
  const one = Object.values<Condition>(conditions).find(({ causes }) => causes?.includes(cause));
  return one === undefined ? (sections[cause] ?? 'Invalid request') : sectionOf(one);
}

/** `#clock-skew` */
export function anchorOf(heading: string): string {
  return `#${heading.toLowerCase().replaceAll(' ', '-')}`;
}

/**
 * On an SLO, as in the SRE workbook, chapter 5. Page: 2 % of the budget of 30 days in one hour or 5 % in six; ticket: 10 %
 * in one or three days. A few failed requests at night do not page.
 */
function burn(what: 'failures' | 'slow', budget: `$${string}`, enough: string) {
  const above = (factor: number, long: string, short: string): string =>
    [long, short]
      .map((window) => `environment:countersign_${what}:ratio_rate${window} > ${factor} * ${budget}`)
      .join('\n  and\n');
  return {
    page: `(\n${above(14.4, '1h', '5m')}\n  or\n${above(6, '6h', '30m')}\n)\n  and on (namespace, release, environment)\nenvironment:countersign_${enough}`,
    ticket: `${above(3, '1d', '2h')}\n  or\n${above(1, '3d', '6h')}`,
    for: '2m',
  };
}

/** Of a kind, as the status has it. */
function keyOf(kind: string): string {
  return kind === 'private_key' ? 'RSA key' : 'control key';
}

function ofEnvironment(environment: string | null): string {
  return environment === null ? '' : ` of ${environment}`;
}
