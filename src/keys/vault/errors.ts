interface Row {
  /** For the log and for people who operate Countersign. */
  readonly text: string;
  /** Vault as a whole is in trouble: nothing is asked of it for a while, and cached keys go on. */
  readonly outage: boolean;
}

const outage = (text: string): Row => ({ text, outage: true });
const answer = (text: string): Row => ({ text, outage: false });

/** The closed list of what can go wrong with Vault, and what to do about each. */
export const vaultErrors = {
  unreachable: outage('Vault cannot be reached'),
  timeout: outage('Vault did not answer in time'),
  redirected: outage('Vault redirects to another address, which is never followed'),
  'too-large': outage('Vault sent more than a reply can hold'),
  'invalid-reply': outage('what answers at the address of Vault does not speak its protocol'),
  'unexpected-content': answer('what Vault has at the path of the login is not a secret of version 2'),
  behind: outage('this Vault node has not caught up with its leader'),
  throttled: outage('Vault limits the rate of requests'),
  standby: outage('this Vault node is a standby'),
  failing: outage('Vault failed'),
  uninitialised: outage('Vault is not initialised'),
  sealed: outage('Vault is sealed'),
  'backing-off': answer('Vault is not asked again yet after a failure'),
  rejected: answer('Vault rejected the request as invalid'),
  denied: answer('Vault denied permission'),
  'no-route': answer('Vault has no such mount or namespace'),
  'kv-version-1': answer('the mount is of KV version 1: move the secrets to one of version 2'),
  'not-found': answer('Vault has no such secret'),
  deleted: answer('the version is deleted or destroyed'),
  'cas-mismatch': answer('somebody else has written a newer version'),
  'bad-credentials': answer('Vault refused the credentials'),
  'no-credentials': answer('the credentials for Vault cannot be read'),
} as const satisfies Record<string, Row>;

export type VaultErrorKind = keyof typeof vaultErrors;

/**
 * HTTP statuses of Vault's API (developer.hashicorp.com/vault/api-docs, "HTTP status codes") that mean the
 * same whatever the body says. Any other status that is not a success is an `invalid-reply`.
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
  [501, 'uninitialised'],
  [502, 'failing'],
  [503, 'sealed'],
  [504, 'failing'],
]);

export interface VaultErrorOptions {
  /** HTTP status, where Vault answered. */
  readonly status?: number;
  /** Seconds until it is worth trying again. */
  readonly retryAfter?: number;
  /** The body of a `deleted` reply holds the version's metadata, and no key. */
  readonly metadata?: unknown;
  /** Added to the text: a file name, an error code. Never anything that was sent to or came from Vault. */
  readonly note?: string;
}

/** An exchange with Vault that failed. Carries no request, no URL, no token and nothing Vault said. */
export class VaultError extends Error {
  override readonly name = 'VaultError';
  readonly kind: VaultErrorKind;
  readonly status: number | undefined;
  readonly retryAfter: number | undefined;
  readonly metadata: unknown;

  constructor(kind: VaultErrorKind, options: VaultErrorOptions = {}) {
    const notes = [options.status === undefined ? undefined : `HTTP ${options.status}`, options.note];
    const note = notes.filter((part) => part !== undefined).join(', ');
    super(note === '' ? vaultErrors[kind].text : `${vaultErrors[kind].text} (${note})`);
    this.kind = kind;
    this.status = options.status;
    this.retryAfter = options.retryAfter;
    this.metadata = options.metadata;
  }
}

/** Whether an error is a problem with Vault of one of these kinds. */
export function isVaultError(error: unknown, ...kinds: readonly VaultErrorKind[]): error is VaultError {
  return error instanceof VaultError && kinds.includes(error.kind);
}

/** Whether an error says that Vault as a whole is in trouble. */
export function isUnavailable(error: unknown): error is VaultError {
  return error instanceof VaultError && vaultErrors[error.kind].outage;
}
