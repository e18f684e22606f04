import { z } from 'zod';

interface Row {
  /** For the log and for operators. */
  readonly text: string;
  /** Vault as a whole is unavailable: cached keys stay in use. */
  readonly outage: boolean;
  /** Those that mean it whatever the body is (developer.hashicorp.com/vault/api-docs, "HTTP status codes"). */
  readonly statuses: readonly number[];
}

const outage = (text: string, ...statuses: number[]): Row => ({ text, outage: true, statuses });
const failure = (text: string, ...statuses: number[]): Row => ({ text, outage: false, statuses });

/** The closed list of failures of a request to Vault. */
export const vaultErrors = {
  unreachable: outage('Vault cannot be reached'),
  timeout: outage('Vault did not respond in time'),
  redirected: outage(
    'Vault redirected to another address; redirects are not followed',
    301,
    302,
    303,
    307,
    308,
  ),
  'too-large': failure('the secret is larger than 1 MiB; store only the fields of the keys in it'),
  'invalid-response': outage('unexpected response: not a Vault API'),
  'unexpected-content': failure('the secret of the login is not a KV version 2 secret'),
  behind: outage('Vault standby is behind the active node', 412),
  throttled: outage('rate-limited by Vault', 429),
  standby: outage('this Vault node is a standby', 472, 473),
  failing: outage('Vault internal error', 500, 502, 504),
  uninitialized: outage('Vault is not initialized', 501),
  sealed: outage('Vault is sealed', 503),
  'backing-off': failure('backing off after a Vault failure'),
  rejected: failure('Vault rejected the request as invalid', 400, 405),
  denied: failure('Vault denied permission', 403),
  'no-route': failure('Vault has no such mount or namespace'),
  'kv-version-1': failure('the mount has KV version 1; move the secrets to a version 2 mount'),
  'not-a-mount': failure(
    'keys.vault.mount is not the name of a mount but a path below one; Countersign adds data/ and metadata/ itself',
  ),
  'not-found': failure('Vault has no such secret', 404),
  'wrong-signature': failure(
    'the signature of Vault does not belong to the public key: the Transit key was replaced; Countersign reads it again',
  ),
  'unfit-key': failure('the Transit key of this name exists and was not changed; choose another name'),
  deleted: failure('the version is deleted or destroyed'),
  'cas-mismatch': failure('check-and-set mismatch'),
  'bad-credentials': failure('Vault rejected the credentials'),
  'limited-uses': failure(
    'the Vault token has a limited number of uses; set token_num_uses of its role to 0, or configure a token without a limit',
  ),
  'no-credentials': failure('the Vault credentials cannot be read'),
} as const satisfies Record<string, Row>;

export type VaultErrorKind = keyof typeof vaultErrors;

function kindOfStatus(status: number): VaultErrorKind | undefined {
  const isKind = (text: string): text is VaultErrorKind => text in vaultErrors;
  return Object.keys(vaultErrors)
    .filter(isKind)
    .find((kind) => vaultErrors[kind].statuses.includes(status));
}

const errorsShape = z.object({ errors: z.array(z.string()) });

const deletedShape = z.object({ data: z.object({ metadata: z.record(z.string(), z.unknown()) }) });

/** Of the version, in the response of Vault to a read of one that is deleted. */
export function metadataOf(body: unknown): Readonly<Record<string, unknown>> | undefined {
  return deletedShape.safeParse(body).data?.data.metadata;
}

/**
 * Checks that a 404 or 400 has the body that Vault itself writes: a load balancer's 404 must not make a key count
 * as deleted.
 */
export function kindOfResponse(status: number, body: unknown): VaultErrorKind {
  const errors = errorsShape.safeParse(body).data?.errors;
  // For failures for which Vault has no dedicated status.
  const mentions = (words: string) => errors?.some((text) => text.includes(words));
  if (status === 404) {
    if (metadataOf(body) !== undefined) return 'deleted';
    if (errors === undefined) return 'invalid-response';
    return errors.length === 0 ? 'not-found' : 'no-route';
  }
  if (status === 400 && mentions('check-and-set')) return 'cas-mismatch';
  // Transit's responses to a version that it does not have or no longer signs with, and, of OpenBao, to a key that is
  // marked as deleted. They concern this key only.
  if (status === 500 && (mentions('requested version for signing') || mentions('soft-deleted key')))
    return 'rejected';
  return kindOfStatus(status) ?? 'invalid-response';
}

interface VaultErrorOptions {
  readonly status?: number | undefined;
  /** The body of a `deleted` response has the version's metadata, and no key. */
  readonly metadata?: unknown;
  /** The failure because of which a request was not sent. */
  readonly cause?: VaultError | undefined;
  /** Appended to the text: a file name or an error code. Never anything that was sent to Vault or received from it. */
  readonly note?: string | undefined;
}

/** A failed request to Vault. Contains no URL, no token and nothing of the request or response. */
export class VaultError extends Error {
  override readonly name = 'VaultError';
  readonly kind: VaultErrorKind;
  readonly status: number | undefined;
  readonly metadata: unknown;
  /** There is no token because of it. */
  isOfLogin = false;

  constructor(kind: VaultErrorKind, { status, metadata, cause, note }: VaultErrorOptions = {}) {
    const { text } = vaultErrors[kind];
    const notes = [status === undefined ? undefined : `HTTP ${status}`, note];
    const known = notes.filter((part) => part !== undefined).join(', ');
    super(known === '' ? text : `${text} (${known})`, { cause });
    this.kind = kind;
    this.status = status;
    this.metadata = metadata;
  }
}

/**
 * For the log; of a request that was not sent, the failure because of which it was not. A failed login has one text,
 * whoever reports it.
 */
export function problemOf(error: unknown): string {
  const root = isVaultError(error, 'backing-off') && error.cause !== undefined ? error.cause : error;
  const message = root instanceof Error ? root.message : 'unknown';
  return error instanceof VaultError && error.isOfLogin ? `Vault login failed: ${message}` : message;
}

export function isVaultError(error: unknown, ...kinds: readonly VaultErrorKind[]): error is VaultError {
  return error instanceof VaultError && kinds.includes(error.kind);
}

/** Whether Vault responded about one path, which says nothing about others, nor about the token. */
export function isOfPathOnly(error: unknown): error is VaultError {
  if (!(error instanceof VaultError) || error.isOfLogin) return false;
  return !vaultErrors[error.kind].outage;
}

/** Whether an error means that Vault as a whole is unavailable. */
export function isUnavailable(error: unknown): error is VaultError {
  return error instanceof VaultError && vaultErrors[error.kind].outage;
}
