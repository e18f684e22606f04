/** Severities, the most serious first: `bad` has to be dealt with now, `warn` soon, `info` is normal. */
export const severities = ['bad', 'warn', 'info'] as const;

export type Severity = (typeof severities)[number];

/**
 * A finding that may have these severities.
 *
 * @returns `when` there is such a finding, for the table in docs/status.md, and its section in deploy/runbook.md
 */
function may<const S extends readonly [Severity, ...Severity[]]>(...be: S) {
  return (when: string, runbookSection: `#${string}`) => ({ severities: be, when, runbookSection });
}

const [bad, warn, info] = [may('bad'), may('warn'), may('info')];
const badOrWarn = may('bad', 'warn');

/** Every finding that a status can have, by its stable code. A rule in findings.ts makes it. */
export const findingCodes = {
  draining: bad('The instance is shutting down.', '#shutting-down'),
  'key-source-never-reached': bad(
    'The key source has not responded since the start.',
    '#countersignkeysourcedown',
  ),
  'audit-unavailable': badOrWarn(
    'Audit records cannot be written; warn: `audit.required` is off.',
    '#countersignauditunavailable',
  ),
  'jwt-keys-unavailable': bad(
    'There are no keys of a JWT issuer, so its callers are rejected.',
    '#countersignjwtkeysstale',
  ),
  'jwt-keys-stale': warn(
    'The keys of a JWT issuer cannot be fetched; the previous ones are still used.',
    '#countersignjwtkeysstale',
  ),
  'log-lines-dropped': warn('Log lines were dropped in the last minute.', '#countersignloglinesdropped'),
  'log-stalled': warn('Log lines wait, and cannot be written.', '#countersignloglinesdropped'),
  'key-source-down': bad(
    'Vault or the key directory does not respond, or Vault rejects the login.',
    '#countersignkeysourcedown',
  ),
  'key-source-denied': bad(
    'Vault or the key directory responds, and denies reading the keys of logins in use.',
    '#countersignkeysdenied',
  ),
  'vault-token-expired': warn('The Vault token has expired.', '#countersignvaulttokenexpiring'),
  'outcome-unknown': bad(
    'In the last hour a payment was sent, and no complete response came back.',
    '#countersignoutcomeunknown',
  ),
  'payment-server-error': bad(
    'In the last hour the gateway responded to a payment with a 5xx.',
    '#countersignpaymentservererror',
  ),
  'gateway-unreachable': badOrWarn(
    'Requests failed without a connection to the gateway.',
    '#gateway-unreachable',
  ),
  'gateway-timeout': badOrWarn('The gateway did not respond in time.', '#no-complete-gateway-response'),
  'gateway-silent': badOrWarn(
    'Requests to an environment are in flight, and for 4 s none has ended; warn: a single one.',
    '#no-complete-gateway-response',
  ),
  'gateway-response-incomplete': badOrWarn(
    'The gateway ended a connection before its response was complete, or its response was not valid HTTP.',
    '#no-complete-gateway-response',
  ),
  'gateway-server-error': badOrWarn('The gateway responded with a 5xx.', '#countersignerrorbudgetburnfast'),
  'signing-unavailable': badOrWarn(
    'Requests failed because Vault did not sign with a key that it alone has.',
    '#countersignsigningunavailable',
  ),
  'requests-failing': badOrWarn(
    'Requests failed for another reason of Countersign, which the finding names.',
    '#countersignerrorbudgetburnfast',
  ),
  saturated: badOrWarn(
    'An environment is at its limit of requests in flight, or requests were rejected as `overloaded` (bad); or it is above 80 % of the limit.',
    '#countersignsaturated',
  ),
  'gateway-rejections': may(
    'bad',
    'warn',
    'info',
  )(
    'More than 2 % of the responses of an environment are 401 or 403; bad: more than half of them; info: each request succeeded with another key.',
    '#countersigngatewayrejections',
  ),
  'gateway-blocks': bad(
    'In the last minute the gateway responded with 401 or 403 to every login of an environment, and to at least two.',
    '#countersigngatewayrejections',
  ),
  'clock-skew': badOrWarn(
    'The clocks of the gateway and the instance differ by more than 30 s; bad: more than half of the responses are 401 or 403.',
    '#countersignclockskew',
  ),
  'key-missing': badOrWarn(
    'The key source no longer has a key in use; warn: a version that it replaced still signs.',
    '#countersignkeymissing',
  ),
  'logins-not-found': badOrWarn(
    'The key source does not know logins whose cached keys are still used, though it did not delete their keys; warn: one login.',
    '#countersignloginsnotfound',
  ),
  'key-unusable': badOrWarn(
    'The newest version of a key cannot be used or, in Vault, lacks it, and there is no other (bad), or an older one signs.',
    '#countersignkeyunusable',
  ),
  'key-rejected': bad(
    'The gateway rejected the key that signs, and has not accepted it since. Requests are still sent.',
    '#countersigngatewayrejections',
  ),
  'key-waiting': info(
    'A rotation: a new version of a key waits for the gateway.',
    '#countersignrotationstuck',
  ),
  'keys-stale': warn(
    'Cached keys could not be read again although the key source is up.',
    '#countersignkeyproblem',
  ),
  'certificate-expiring': badOrWarn(
    'A certificate has expired (bad), or has less than a fifth of its lifetime or 7 days left.',
    '#countersigncertificateexpiring',
  ),
  'certificate-files-unusable': warn(
    'Certificate files were replaced by files that cannot be used, such as a revocation list older than the one in use; the previous ones stay in use.',
    '#countersigncertificateexpiring',
  ),
  'caller-limited': warn(
    'In the last minute requests of a caller got 429 because of its `maxInFlight`.',
    '#caller-limit',
  ),
  'caller-dry-run': warn(
    'A caller is in dry-run: its requests are let through, whatever its grants say.',
    '#countersignauthorizationdenials',
  ),
  'config-reload-failed': warn(
    'The last reload failed or requires a restart.',
    '#countersignconfigreloadfailed',
  ),
};

export type FindingCode = keyof typeof findingCodes;

/** The severities of a code. */
export type SeverityOf<C extends FindingCode> = (typeof findingCodes)[C]['severities'][number];
