/** Severities, the most serious first: `bad` has to be dealt with now, `warn` soon, `info` is normal. */
export const severities = ['bad', 'warn', 'info'] as const;

export type Severity = (typeof severities)[number];

interface Row {
  readonly severities: readonly [Severity, ...Severity[]];
  /** When there is such a finding: a row of the table in docs/status.md. */
  readonly when: string;
  /** Of deploy/runbook.md. */
  readonly runbookSection: `#${string}`;
}

/** Every finding that a status can have, by its stable code. A rule in findings.ts makes it. */
export const findingCodes = {
  draining: {
    severities: ['bad'],
    when: 'The instance is shutting down.',
    runbookSection: '#shutting-down',
  },
  'key-source-never-reached': {
    severities: ['bad'],
    when: 'The key source has not responded since the start.',
    runbookSection: '#countersignkeysourcedown',
  },
  'audit-unavailable': {
    severities: ['bad', 'warn'],
    when: 'Audit records cannot be written; warn: `audit.required` is off.',
    runbookSection: '#countersignauditunavailable',
  },
  'jwt-keys-unavailable': {
    severities: ['bad'],
    when: 'There are no keys of a JWT issuer, so its callers are rejected.',
    runbookSection: '#countersignjwtkeysstale',
  },
  'jwt-keys-stale': {
    severities: ['warn'],
    when: 'The keys of a JWT issuer cannot be fetched; the previous ones are still used.',
    runbookSection: '#countersignjwtkeysstale',
  },
  'log-lines-dropped': {
    severities: ['warn'],
    when: 'Log lines were dropped in the last minute.',
    runbookSection: '#countersignloglinesdropped',
  },
  'log-stalled': {
    severities: ['warn'],
    when: 'Log lines wait, and cannot be written.',
    runbookSection: '#countersignloglinesdropped',
  },
  'key-source-down': {
    severities: ['bad'],
    when: 'Vault or the key directory does not respond, or Vault rejects the login.',
    runbookSection: '#countersignkeysourcedown',
  },
  'key-source-denied': {
    severities: ['bad'],
    when: 'Vault or the key directory responds, and denies reading the keys of logins in use.',
    runbookSection: '#countersignkeysdenied',
  },
  'vault-token-expired': {
    severities: ['warn'],
    when: 'The Vault token has expired.',
    runbookSection: '#countersignvaulttokenexpiring',
  },
  'outcome-unknown': {
    severities: ['bad'],
    when: 'In the last hour a payment was sent, and no complete response came back.',
    runbookSection: '#countersignoutcomeunknown',
  },
  'payment-server-error': {
    severities: ['bad'],
    when: 'In the last hour the gateway responded to a payment with a 5xx.',
    runbookSection: '#countersignpaymentservererror',
  },
  'gateway-unreachable': {
    severities: ['bad', 'warn'],
    when: 'Requests failed without a connection to the gateway.',
    runbookSection: '#gateway-unreachable',
  },
  'gateway-timeout': {
    severities: ['bad', 'warn'],
    when: 'The gateway did not respond in time.',
    runbookSection: '#no-complete-gateway-response',
  },
  'gateway-response-incomplete': {
    severities: ['bad', 'warn'],
    when: 'The gateway ended a connection before its response was complete, or its response was not valid HTTP.',
    runbookSection: '#no-complete-gateway-response',
  },
  'gateway-server-error': {
    severities: ['bad', 'warn'],
    when: 'The gateway responded with a 5xx.',
    runbookSection: '#countersignerrorbudgetburnfast',
  },
  'signing-unavailable': {
    severities: ['bad', 'warn'],
    when: 'Requests failed because Vault did not sign with a key that it alone has.',
    runbookSection: '#countersignsigningunavailable',
  },
  'requests-failing': {
    severities: ['bad', 'warn'],
    when: 'Requests failed for another reason of Countersign, which the finding names.',
    runbookSection: '#countersignerrorbudgetburnfast',
  },
  saturated: {
    severities: ['bad', 'warn'],
    when: 'An environment is at its limit of requests in flight, or requests were rejected as `overloaded` (bad); or it is above 80 % of the limit.',
    runbookSection: '#countersignsaturated',
  },
  'gateway-rejections': {
    severities: ['bad', 'warn', 'info'],
    when: 'More than 2 % of the responses of an environment are 403s; bad: more than half of them; info: each request succeeded with another key.',
    runbookSection: '#countersigngatewayrejections',
  },
  'gateway-blocks': {
    severities: ['bad'],
    when: 'In the last minute the gateway responded with 403 to every login of an environment, and to at least two.',
    runbookSection: '#countersigngatewayrejections',
  },
  'clock-skew': {
    severities: ['warn'],
    when: 'The clocks of the gateway and the instance differ by more than 30 s.',
    runbookSection: '#countersignclockskew',
  },
  'key-missing': {
    severities: ['bad', 'warn'],
    when: 'The key source no longer has a key in use; warn: a version that it replaced still signs.',
    runbookSection: '#countersignkeymissing',
  },
  'logins-not-found': {
    severities: ['bad', 'warn'],
    when: 'The key source does not know logins whose cached keys are still used, though it did not delete their keys; warn: one login.',
    runbookSection: '#countersignloginsnotfound',
  },
  'key-unusable': {
    severities: ['bad', 'warn'],
    when: 'The newest version of a key cannot be used or, in Vault, lacks it, and there is no other (bad), or an older one signs.',
    runbookSection: '#countersignkeyunusable',
  },
  'key-rejected': {
    severities: ['bad'],
    when: 'The gateway rejects the version of a key that signs.',
    runbookSection: '#countersigngatewayrejections',
  },
  'key-waiting': {
    severities: ['info'],
    when: 'A rotation: a new version of a key waits for the gateway.',
    runbookSection: '#countersignrotationstuck',
  },
  'keys-stale': {
    severities: ['warn'],
    when: 'Cached keys could not be read again although the key source is up.',
    runbookSection: '#countersignkeyproblem',
  },
  'certificate-expiring': {
    severities: ['bad', 'warn'],
    when: 'A certificate has expired (bad), or has less than a fifth of its lifetime or 7 days left.',
    runbookSection: '#countersigncertificateexpiring',
  },
  'caller-dry-run': {
    severities: ['warn'],
    when: 'A caller is in dry-run: its requests are let through, whatever its grants say.',
    runbookSection: '#countersignauthorizationdenials',
  },
  'config-reload-failed': {
    severities: ['warn'],
    when: 'The last reload failed or requires a restart.',
    runbookSection: '#countersignconfigreloadfailed',
  },
} as const satisfies Record<string, Row>;

export type FindingCode = keyof typeof findingCodes;

/** The severities of a code. */
export type SeverityOf<C extends FindingCode> = (typeof findingCodes)[C]['severities'][number];
