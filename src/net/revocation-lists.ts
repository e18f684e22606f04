export interface RevocationList {
  /** The name of the CA (RFC 5280 section 5.1.2.3), its encoding as text. */
  readonly issuer: string;
  /** `thisUpdate`, in milliseconds since 1970. */
  readonly from: number;
  /** `nextUpdate`, which no list may lack (RFC 5280 section 5.1.2.5). */
  readonly until: number;
}

const listBlock = /-----BEGIN X509 CRL-----([^-]+)-----END X509 CRL-----/g;

/** The certificate revocation lists in a PEM text; `undefined` if one is none. OpenSSL verifies the rest. */
export function revocationListsIn(pem: string): RevocationList[] | undefined {
  try {
    const lists = Array.from(pem.matchAll(listBlock), ([, base64 = '']) => Buffer.from(base64, 'base64'));
    const read = lists.map((list): RevocationList => {
      const [tbs] = derElements(derElements(list)[0]?.content ?? list);
      const fields = derElements(tbs?.content ?? list);
      const [from, until] = fields.flatMap(timeIn);
      if (from === undefined || until === undefined) throw new Error('a time is missing');
      // The field before `thisUpdate`; the version, which comes first, is optional.
      const issuer = fields[fields.findIndex((field) => timeIn(field).length > 0) - 1];
      return { issuer: issuer?.bytes.toString('base64') ?? '', from, until };
    });
    return read.length === 0 ? undefined : read;
  } catch {
    return undefined;
  }
}

/** UTCTime or GeneralizedTime in the form of RFC 5280 section 4.1.2.5; empty for any other element. */
function timeIn({ tag, content }: DerElement): number[] {
  if (tag !== 0x17 && tag !== 0x18) return [];
  const text = content.toString('latin1');
  const century = tag === 0x18 ? '' : text < '50' ? '20' : '19';
  const iso = `${century}${text}`.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z');
  const time = Date.parse(iso);
  if (Number.isNaN(time)) throw new Error('not a time');
  return [time];
}

/** One element of a DER encoding (X.690 section 8.1). */
interface DerElement {
  readonly tag: number;
  readonly content: Buffer;
  /** With its tag and length. */
  readonly bytes: Buffer;
}

/**
 * Elements one after the other.
 *
 * @throws RangeError if they are cut, have tags of several bytes, or an indefinite length, which DER does not have
 */
function derElements(encoded: Buffer): DerElement[] {
  const elements: DerElement[] = [];
  for (let start = 0; start < encoded.length; ) {
    const tag = encoded.readUInt8(start);
    if ((tag & 0x1f) === 0x1f) throw new RangeError('a tag of several bytes');
    const first = encoded.readUInt8(start + 1);
    if (first === 0x80) throw new RangeError('an indefinite length');
    const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
    const from = start + 2 + lengthBytes;
    const until = from + (lengthBytes === 0 ? first : encoded.readUIntBE(start + 2, lengthBytes));
    if (until > encoded.length) throw new RangeError('an element is cut');
    elements.push({ tag, content: encoded.subarray(from, until), bytes: encoded.subarray(start, until) });
    start = until;
  }
  return elements;
}
