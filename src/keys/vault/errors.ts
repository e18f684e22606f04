interface Row {
  /** For the log and for operators. */
  readonly text: string;
  /** Vault as a whole is unavailable: the circuit breaker opens, and cached keys stay in use. */
  readonly outage: boolean;
}

const outage = (text: string): Row => ({ text, outage: true });
const failure = (text: string): Row => ({ text, outage: false });

/** The closed list of failures of a request to Vault. */
export const vaultErrors = {
  unreachable: outage('Vault cannot be reached'),
  timeout: outage('Vault did not respond in time'),
  redirected: outage('Vault redirected to another address; redirects are not followed'),
  'too-large': failure('the secret is larger than 1 MiB; store only the fields of the keys in it'),
  'invalid-response': outage('unexpected response: not a Vault API'),
  'unexpected-content': failure('the secret of the login is not a KV version 2 secret'),
  behind: outage('Vault standby is behind the active node'),
  throttled: outage('rate-limited by Vault'),
  standby: outage('this Vault node is a standby'),
  failing: outage('Vault internal error'),
  uninitialized: outage('Vault is not initialized'),
  sealed: outage('Vault is sealed'),
  'backing-off': failure('backing off after a Vault failure'),
  rejected: failure('Vault rejected the request as invalid'),
  denied: failure('Vault denied permission'),
  'no-route': failure('Vault has no such mount or namespace'),
  'kv-version-1': failure('the mount has KV version 1; move the secrets to a version 2 mount'),
  'not-found': failure('Vault has no such secret'),
  'wrong-signature': failure(
    'the signature of Vault does not belong to the public key: the Transit key was replaced; Countersign reads it again',
  ),
  'unfit-key': failure('the Transit key of this name exists and was not changed; choose another name'),
  deleted: failure('the version is deleted or destroyed'),
  'cas-mismatch': failure('check-and-set mismatch'),
  'bad-credentials': failure('Vault rejected the credentials'),
  'spent-wrapping': failure('the wrapping token of the secret ID is used or has expired'),
  'no-credentials': failure('the Vault credentials cannot be read'),
} as const satisfies Record<string, Row>;

export type VaultErrorKind = keyof typeof vaultErrors;

/**
 * HTTP statuses of Vault's API (developer.hashicorp.com/vault/api-docs, "HTTP status codes") whose meaning does not
 * depend on the body. Any other status that is not a success is an `invalid-response`.
 */
export const kindOfStatus: ReadonlyMap<number, VaultErrorKind> = new Map([
  [301, 'redirected'],
  [302, 'redirected'],
  [303, 'redirected'],
  [307, 'redirected'],
  [308, 'redirected'],
  [400, 'rejected'],
  [403, 'denied'],
  [404, 'not-found'],
  [405, 'rejected'],
  [412, 'behind'],
  [429, 'throttled'],
  [472, 'standby'],
  [473, 'standby'],
  [500, 'failing'],
  [501, 'uninitialized'],
  [502, 'failing'],
  [503, 'sealed'],
  [504, 'failing'],
]);

interface VaultErrorOptions {
  readonly status?: number;
  /** Seconds until it is worth trying again. */
  readonly retryAfter?: number;
  /** The body of a `deleted` response has the version's metadata, and no key. */
  readonly metadata?: unknown;
  /** The failure because of which a request was not sent. */
  readonly cause?: VaultError | undefined;
  /** Appended to the text: a file name or an error code. Never anything that was sent to Vault or received from it. */
  readonly note?: string;
}

/** A failed request to Vault. Contains no URL, no token and nothing of the request or response. */
export class VaultError extends Error {
  override readonly name = 'VaultError';
  readonly kind: VaultErrorKind;
  readonly status: number | undefined;
  readonly retryAfter: number | undefined;
  readonly metadata: unknown;

  constructor(kind: VaultErrorKind, options: VaultErrorOptions = {}) {
    const notes = [options.status === undefined ? undefined : `HTTP ${options.status}`, options.note];
    const note = notes.filter((part) => part !== undefined).join(', ');
    super(note === '' ? vaultErrors[kind].text : `${vaultErrors[kind].text} (${note})`, {
      cause: options.cause,
    });
    this.kind = kind;
    this.status = options.status;
    this.retryAfter = options.retryAfter;
    this.metadata = options.metadata;
  }
}

/** The failure itself, also of a request that was not sent because of it. */
export function rootOf(error: unknown): unknown {
  return isVaultError(error, 'backing-off') && error.cause !== undefined ? error.cause : error;
}

export function isVaultError(error: unknown, ...kinds: readonly VaultErrorKind[]): error is VaultError {
  return error instanceof VaultError && kinds.includes(error.kind);
}

/** Whether an error means that Vault as a whole is unavailable. */
export function isUnavailable(error: unknown): error is VaultError {
  return error instanceof VaultError && vaultErrors[error.kind].outage;
}
