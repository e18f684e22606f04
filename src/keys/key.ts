import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  verify,
} from 'node:crypto';
import type { KeyKind, SigningKey } from '../oauth1/methods.ts';
import { Secret } from '../secret.ts';
import { type SecretText, secretText } from '../util/secret-text.ts';
import { isGiven, misnamedKeys } from './field-names.ts';
import { isDer, pemFault } from './pem.ts';
import type { TransitKey, UnusableKey, UsableKey } from './ring.ts';

/** The public facts of a key. The names are those of `--json`. */
export interface KeyDescription {
  readonly kind: KeyKind;
  /** Why it cannot be used. */
  readonly problem?: string;
  /** Of an RSA key, SHA-256 over the public key's SPKI DER, hex; of a control key as of `UsableKey`. */
  readonly fingerprint?: string;
  /** `NAME:VERSION` in Vault's Transit engine, for a key that does not leave it. */
  readonly transitKey?: string;
  readonly bits?: number;
  /** PEM, SPKI. */
  readonly publicKey?: string;
}

/** The fields of one version of a login's secret, as read from the source and not yet validated. */
export interface KeyFields {
  readonly control_key?: unknown;
  readonly private_key?: unknown;
  /** For an encrypted `private_key`. */
  readonly passphrase?: unknown;
  /** In place of `private_key`: `NAME:VERSION` of a key in Vault's Transit engine. */
  readonly transit_key?: unknown;
}

/** Where each field comes from, for an operator. */
export type KeyPlaces = Readonly<Record<'control_key' | 'private_key' | 'passphrase', string>>;

const places: KeyPlaces = {
  control_key: 'field control_key',
  private_key: 'field private_key',
  passphrase: 'field passphrase',
};

type KeyVersion = Pick<UsableKey, 'version' | 'createdAt' | 'supersededAt'>;

/** The content of an entry of a ring. */
export type Parsed = Pick<UsableKey, 'key' | 'fingerprint'> | Pick<UnusableKey, 'problem'>;

const minimumBits = 2048;
const maximumBits = 16_384;
/** PKCS#8 says so in its label, PKCS#1 in a header line (RFC 1421 section 4.6.1.1). */
const encryptedHeader = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m;
const damaged = 'the private key is damaged: its PEM text cannot be decoded';
const undecryptable =
  'the private key cannot be decrypted: wrong passphrase, or a cipher that is not supported';
const binary =
  'is binary, such as DER or PKCS#12; convert it to PEM: openssl pkey -inform DER -in FILE, or openssl pkcs12 -nocerts -nodes -in FILE';

/**
 * Parses one version of a login's secret into its control key, its private key, both or neither. Never throws:
 * an invalid key becomes an {@link UnusableKey}, whose `problem` contains nothing of the key.
 *
 * @param transit what the field `transit_key` names
 * @param from where the fields come from; those of a secret unless given
 */
export function parseKeys(
  fields: KeyFields,
  version: KeyVersion,
  transit?: Parsed,
  from = places,
): (UsableKey | UnusableKey)[] {
  const keys: (UsableKey | UnusableKey)[] = [];
  const add = (kind: KeyKind, parsed: Parsed): void => {
    keys.push({ kind, ...version, ...parsed });
  };
  if (fields.control_key !== undefined)
    add('control_key', parseControlKey(fields.control_key, from.control_key));
  if (isGiven(fields.transit_key)) {
    const both = { problem: 'the secret has both private_key and transit_key; remove one of them' };
    add('private_key', isGiven(fields.private_key) ? both : (transit ?? noTransit));
  } else if (fields.private_key !== undefined) {
    add('private_key', parsePrivateKey(fields, from));
  }
  for (const { kind, problem } of misnamedKeys(fields)) {
    if (!keys.some((key) => key.kind === kind)) add(kind, { problem });
  }
  return keys;
}

const noTransit = { problem: 'the field transit_key names a key in Vault, which is not the source of keys' };

function parseControlKey(field: unknown, place: string): Parsed {
  if (!isContent(field)) return { problem: 'the control key is not a string' };
  const read = secretText(field, 'key');
  if ('text' in read) {
    const key = { kind: 'control_key', secret: new Secret(read.text) } as const;
    return { key, fingerprint: controlKeyFingerprint(read.text) };
  }
  const { fault } = read;
  return { problem: `the control key (${place}) ${fault}` };
}

/**
 * 16 bits of an HMAC-SHA256 of a fixed label, in hex. They tell two keys apart, except one pair in 65,536; of the 122 random
 * bits of a control key 106 stay unknown, so nobody can find the key, or confirm a guess (docs/security-model.md).
 */
function controlKeyFingerprint(key: string): string {
  return createHmac('sha256', key).update('countersign control key fingerprint').digest('hex').slice(0, 4);
}

function parsePrivateKey({ private_key: field, passphrase }: KeyFields, from: KeyPlaces): Parsed {
  if (!isContent(field)) return { problem: 'the private key is not a string' };
  const read = typeof field !== 'string' && isDer(field) ? { fault: binary } : privateKeyText(field);
  const { private_key: place } = from;
  if ('text' in read) {
    const isEncrypted = encryptedHeader.test(read.text);
    return isEncrypted ? decrypt(read.text, passphrase, from.passphrase) : readPem(read.text, damaged);
  }
  const { fault } = read;
  return { problem: `the private key (${place}) ${fault}` };
}

function privateKeyText(field: string | Uint8Array): SecretText {
  const read = secretText(field, 'pem');
  const fault = 'text' in read ? pemFault(read.text) : undefined;
  return fault === undefined ? read : { fault };
}

function decrypt(pem: string, passphrase: unknown, place: string): Parsed {
  if (!isGiven(passphrase)) return { problem: 'the private key is encrypted and needs a passphrase' };
  if (!isContent(passphrase)) return { problem: 'the passphrase of the private key is not a string' };
  const read = secretText(passphrase, 'passphrase');
  if ('text' in read) return readPem(pem, undecryptable, read.text);
  const { fault } = read;
  return { problem: `the passphrase of the private key (${place}) ${fault}` };
}

/** As a source has it: text, or the bytes of a file. */
function isContent(field: unknown): field is string | Uint8Array {
  return typeof field === 'string' || field instanceof Uint8Array;
}

/** Drops OpenSSL's error: its text does not help an operator, and we cannot be sure that it holds no secret. */
function readPem(pem: string, problem: string, passphrase?: string): Parsed {
  try {
    const privateKey = createPrivateKey(passphrase === undefined ? pem : { key: pem, passphrase });
    return usableRsa({ kind: 'private_key', privateKey }, createPublicKey(privateKey));
  } catch {
    return { problem };
  }
}

/** @param key whose public key this is */
export function usableRsa(key: UsableKey['key'], publicKey: KeyObject): Parsed {
  const type = publicKey.asymmetricKeyType;
  if (type !== 'rsa') return { problem: `the private key is of type ${type}; an RSA key is needed` };
  const bits = publicKey.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits < minimumBits) {
    return { problem: `RSA key of ${bits} bits is too weak; use at least ${minimumBits}` };
  }
  if (bits > maximumBits) {
    // Node 26 left an error of such a key behind, with which the next key that is read would fail. This takes it away.
    verify('sha256', Buffer.alloc(0), publicKey, Buffer.alloc(0));
    return { problem: `RSA key of ${bits} bits is too long; use at most ${maximumBits}` };
  }
  const der = publicKey.export({ type: 'spki', format: 'der' });
  return { key, fingerprint: createHash('sha256').update(der).digest('hex') };
}

/** As in the field `transit_key` of a secret. */
export function referenceOf({ name, keyVersion }: TransitKey): string {
  return `${name}:${keyVersion}`;
}

/** Of an RSA key, wherever its private key is. */
export function publicKeyOf(key: TransitKey | Exclude<SigningKey, { kind: 'control_key' }>): KeyObject {
  return 'publicKey' in key ? key.publicKey : createPublicKey(key.privateKey);
}

export function describeKey(entry: UsableKey | UnusableKey): KeyDescription {
  const { kind } = entry;
  if ('problem' in entry) return { kind, problem: entry.problem };
  const { key } = entry;
  const fingerprint = entry.fingerprint === undefined ? {} : { fingerprint: entry.fingerprint };
  if (key.kind === 'control_key') return { kind, ...fingerprint };
  const publicKey = publicKeyOf(key);
  return {
    kind,
    ...fingerprint,
    ...('publicKey' in key ? { transitKey: referenceOf(key) } : {}),
    bits: publicKey.asymmetricKeyDetails?.modulusLength ?? 0,
    publicKey: publicKey.export({ type: 'spki', format: 'pem' }).trimEnd(),
  };
}

/** Formats an age in the largest whole unit, such as `5m` or `40d`; a time to come counts as now. */
export function age(createdAt: Date | undefined, now: number): string {
  if (createdAt === undefined) return '';
  const seconds = Math.max(0, Math.floor((now - createdAt.getTime()) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
