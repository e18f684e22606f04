import { capitalized, since } from '../format.ts';
import { expiring } from '../thresholds.ts';
import { because, type Conditions, checkOnline } from './condition.ts';

/** Whether the instance runs, and can write what it has to before it sends. */
export const ofInstance = {
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
    find: ({ health: { reasons } }) =>
      reasons.includes('draining') ? { summary: 'Shutting down' } : undefined,
    todo: 'Requests in flight are finished; new ones belong to another instance.',
    section: 'Shutting down',
    causes: ['shutting-down'],
  },
  'audit-unavailable': {
    when: 'Audit records cannot be written, or were lost.',
    find({ health: { reasons }, audit }) {
      const required = reasons.includes('audit-unavailable');
      if (!required && audit?.up !== false) return undefined;
      const summary = `Audit records cannot be written${because(audit?.problem)}`;
      return required
        ? { severity: 'bad', summary, state: ['Nothing is sent without them.'] }
        : { severity: 'warn', summary, state: ['They wait in memory, and are lost when it is full.'] };
    },
    todo: 'Check space, permissions and the largest size of a file (EFBIG) of the audit folder.',
    alert: 'CountersignAuditUnavailable',
    core: true,
    title: '<instance> cannot write audit records',
    page: `
        min by (namespace, release, instance) (countersign_audit_up) == 0
          or
        sum by (namespace, release, instance) (increase(countersign_audit_records_lost_total[10m])) > 0`,
    for: '2m',
    causes: ['audit-unavailable'],
  },
  'claims-unavailable': {
    severity: 'bad',
    when: 'The store of `payments.once` takes no claim: payments are not sent.',
    find: ({ claims }) =>
      claims?.up === false
        ? { summary: `Order IDs cannot be claimed${because(claims.problem)}`, state: ['No payment is sent.'] }
        : undefined,
    todo: `${checkOnline} Queries go on; no restart is needed.`,
    alert: 'CountersignClaimsUnavailable',
    title: '<instance> cannot claim order IDs',
    page: 'min by (namespace, release, instance) (countersign_claim_store_up) == 0',
    for: '2m',
    causes: ['claims-unavailable'],
  },
} satisfies Conditions;

/** Its certificates, issuers, log, spans and configuration. */
export const ofUpkeep = {
  'certificate-expiring': {
    when: 'A certificate has expired, or has less than a fifth of its lifetime or 7 days left.',
    find: ({ at, certificates }) =>
      certificates.map((one) => {
        const severity = expiring(at, one);
        if (severity === 'ok') return undefined;
        const { name, environment, until } = one;
        const when = severity === 'bad' ? 'has expired' : `expires in ${since(until, at)}`;
        return { severity, summary: `Certificate ${name}${ofEnvironment(environment)} ${when}`, environment };
      }),
    todo: 'Renew it and replace the file; no restart is needed.',
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
    // One for the files of a port or a server, however many certificates are in them.
    find: ({ certificates }) =>
      [...Map.groupBy(certificates, ({ problem }) => problem)].map(([problem, [first]]) => {
        if (problem === null || first === undefined) return undefined;
        const { name, environment } = first;
        const summary = `New certificate files of ${name}${ofEnvironment(environment)} cannot be used${because(problem)}`;
        return { summary, environment };
      }),
    todo: 'The previous ones are in use. Correct the files; no restart is needed.',
    section: 'CountersignCertificateExpiring',
  },
  'jwt-keys-stale': {
    when: 'The keys of a JWT issuer cannot be fetched. Warn: the previous ones are still used.',
    find: ({ jwtIssuers }) =>
      jwtIssuers.map(({ name, available, problem }) => {
        if (available && problem === null) return undefined;
        const summary = `The keys of the JWT issuer ${name} cannot be fetched: ${problem ?? 'not tried yet'}`;
        const previous = 'The previous ones are used until `maxStale` of the issuer has passed.';
        const effect = available ? previous : 'Callers with its tokens are rejected.';
        return { severity: available ? 'warn' : 'bad', summary, state: [effect] };
      }),
    todo: '`countersign check --online --config FILE` fetches them and says what fails.',
    alert: 'CountersignJwtKeysStale',
    title: 'The keys of the JWT issuer <issuer> cannot be fetched on <instance>',
    ticket: 'time() - countersign_jwt_keys_fetched_timestamp_seconds > $jwtKeysAgeSeconds',
    for: '5m',
    causes: ['issuer-unavailable'],
  },
  'log-lines-dropped': {
    severity: 'warn',
    when: 'Log lines were dropped or wait: standard output does not accept them.',
    find({ health: { warnings } }) {
      if (warnings.includes('log-stalled'))
        return { summary: 'The log cannot be written, because standard output accepts no lines' };
      return warnings.includes('log-lines-dropped')
        ? { summary: 'Log lines were dropped, because standard output did not accept them' }
        : undefined;
    },
    todo: 'Requests are processed. Check where standard output goes: a full disk, or a log collector that has stopped.',
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
    find: ({ config: { problem } }) => (problem === null ? undefined : { summary: capitalized(problem) }),
    todo: 'Correct the file and reload it, or restart where that is required. The log has each problem.',
    alert: 'CountersignConfigReloadFailed',
    title: 'The configuration file on <instance> is not in effect',
    ticket: 'min by (namespace, release, instance) (countersign_config_last_reload_successful) == 0',
    for: '5m',
  },
} satisfies Conditions;

function ofEnvironment(environment: string | null): string {
  return environment === null ? '' : ` of ${environment}`;
}
