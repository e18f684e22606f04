import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { errorCode } from '../errors.ts';
import { revocationListsIn } from './revocation-lists.ts';

/** PEM texts for one end of TLS connections: its certificate chain and key, and the CAs that it trusts. */
export interface TlsMaterial {
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
  /** Certificate revocation lists of the CAs (RFC 5280 section 5). */
  readonly crl?: string;
  /** The CAs that it trusts for its egress proxy. */
  readonly proxyCa?: string;
}

export type TlsPart = keyof TlsMaterial;

/** The parts that expire. */
export const datedParts = ['cert', 'ca', 'crl', 'proxyCa'] as const;

export interface TlsFault {
  readonly part: TlsPart;
  /** What is wrong, worded to follow a file name. Contains nothing of the file. */
  readonly message: string;
}

/** Both in milliseconds since 1970. */
export interface Validity {
  readonly from: number;
  readonly until: number;
}

/** Why the material cannot be used: an invalid part, or a key that does not match the certificate. */
export function tlsFaults(material: TlsMaterial): TlsFault[] {
  const faults = partFaults(material);
  return faults.length === 0 ? contextFaults(material) : faults;
}

/** OpenSSL has further rules, such as a minimum key length. */
function contextFaults({ proxyCa, ...material }: TlsMaterial): TlsFault[] {
  try {
    createSecureContext(material);
    if (proxyCa !== undefined) createSecureContext({ ca: proxyCa });
    return [];
  } catch (error) {
    const code = errorCode(error);
    const suffix = code === undefined ? '' : ` (${code})`;
    return [{ part: faultyPart(material), message: `is not accepted for TLS${suffix}` }];
  }
}

/** OpenSSL does not say which. */
function faultyPart({ cert, crl, ...others }: TlsMaterial): TlsPart {
  if (crl !== undefined && contextFaults({ ...others, ...(cert === undefined ? {} : { cert }) }).length === 0)
    return 'crl';
  return cert === undefined ? 'ca' : 'cert';
}

/** What each part has to contain, and what is wrong with one that does not. */
const contents: readonly (readonly [TlsPart, parse: (pem: string) => unknown, message: string])[] = [
  ['cert', certificatesIn, 'contains no valid PEM certificate'],
  ['ca', certificatesIn, 'contains no valid PEM certificate'],
  ['proxyCa', certificatesIn, 'contains no valid PEM certificate'],
  ['crl', revocationListsIn, 'contains no valid PEM certificate revocation list with a nextUpdate'],
  ['key', privateKeyIn, 'is not an unencrypted PEM private key'],
];

function partFaults(material: TlsMaterial): TlsFault[] {
  const faults = contents.flatMap(([part, parse, message]): TlsFault[] => {
    const text = material[part];
    return text === undefined || parse(text) !== undefined ? [] : [{ part, message }];
  });
  const key = privateKeyIn(material.key ?? '');
  const [certificate] = certificatesIn(material.cert ?? '') ?? [];
  if (key !== undefined && certificate?.checkPrivateKey(key) === false)
    faults.push({ part: 'key', message: 'does not match the certificate' });
  return faults;
}

/**
 * Validity of a part: for a chain, while all its certificates are valid, and so for revocation lists; for CAs, until
 * the last one expires, since a bundle may contain expired ones. `undefined` for a key, and for invalid PEM.
 */
export function validityOf(material: TlsMaterial, part: TlsPart): Validity | undefined {
  const text = part === 'key' ? undefined : material[part];
  if (text === undefined) return undefined;
  const periods = part === 'crl' ? revocationListsIn(text) : periodsOfCertificates(text);
  if (periods === undefined) return undefined;
  if (part === 'ca' || part === 'proxyCa')
    return periods.reduce((last, each) => (each.until > last.until ? each : last));
  return {
    from: Math.max(...periods.map(({ from }) => from)),
    until: Math.min(...periods.map(({ until }) => until)),
  };
}

/** Parts that have expired or are not valid yet. @param now milliseconds since 1970 */
export function untimelyParts(material: TlsMaterial, now: number): TlsFault[] {
  return datedParts.flatMap((part): TlsFault[] => {
    const validity = validityOf(material, part);
    if (validity === undefined) return [];
    if (now > validity.until) return [{ part, message: `expired on ${dateOf(validity.until)}: renew it` }];
    if (now < validity.from) return [{ part, message: `is not valid before ${dateOf(validity.from)}` }];
    return [];
  });
}

const certificateBlock =
  /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]+-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g;

function certificatesIn(pem: string): readonly X509Certificate[] | undefined {
  try {
    return pem.match(certificateBlock)?.map((block) => new X509Certificate(block));
  } catch {
    return undefined;
  }
}

function periodsOfCertificates(pem: string): Validity[] | undefined {
  return certificatesIn(pem)?.map(({ validFromDate, validToDate }) => ({
    from: validFromDate.getTime(),
    until: validToDate.getTime(),
  }));
}

/**
 * Why revocation lists cannot take the place of those in use: with the older list of a CA, certificates that were revoked
 * since would be accepted again. A CA without a list needs no rule: none of its certificates is accepted.
 */
export function outdatedLists(inUse: TlsMaterial, found: TlsMaterial): TlsFault[] {
  const lists = revocationListsIn(found.crl ?? '') ?? [];
  const isOlder = revocationListsIn(inUse.crl ?? '')?.some(({ issuer, from }) => {
    const same = lists.filter((list) => list.issuer === issuer);
    return same.length > 0 && same.every((list) => list.from < from);
  });
  const message = 'has a revocation list that is older than the one in use: write the latest list of the CA';
  return isOlder === true ? [{ part: 'crl', message }] : [];
}

function privateKeyIn(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}

function dateOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}
