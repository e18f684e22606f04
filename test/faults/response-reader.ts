/** One response of the proxy, parsed from its bytes. */
export interface RawResponse {
  readonly status: number;
  /** By lower-case name; the last of several counts. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
  /** `false`: the connection ended before. */
  readonly complete: boolean;
}

interface Head {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly bytes: number;
}

/** Splits the bytes of one connection into responses, without an HTTP library. */
export class ResponseReader {
  #chunks: Buffer[] = [];
  #size = 0;
  /** Nothing can be complete before so many bytes are there: large bodies are not parsed for each chunk. */
  #needed = 1;

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
  }

  /** Bytes that belong to no response returned so far. */
  get pending(): number {
    return this.#size;
  }

  /** The next response; `undefined` while it is incomplete. */
  next(): RawResponse | undefined {
    if (this.#size < this.#needed) return undefined;
    const bytes = this.#joined();
    const head = headOf(bytes);
    if (head === undefined) return undefined;
    const body = bodyOf(head, bytes);
    if (typeof body === 'number') {
      this.#needed = body;
      return undefined;
    }
    this.#rest(bytes.subarray(body.end));
    return { status: head.status, headers: head.headers, body: body.body, complete: true };
  }

  /** The received part of a response when the connection has ended; `undefined` without a complete head. */
  broken(): RawResponse | undefined {
    const bytes = this.#joined();
    const head = headOf(bytes);
    if (head === undefined) return undefined;
    this.#rest(Buffer.alloc(0));
    const { status, headers } = head;
    return { status, headers, body: bytes.subarray(head.bytes), complete: false };
  }

  #joined(): Buffer {
    const [first = Buffer.alloc(0)] = this.#chunks;
    const bytes = this.#chunks.length > 1 ? Buffer.concat(this.#chunks) : first;
    this.#chunks = [bytes];
    return bytes;
  }

  #rest(bytes: Buffer): void {
    this.#chunks = bytes.length === 0 ? [] : [bytes];
    this.#size = bytes.length;
    this.#needed = 1;
  }
}

function headOf(bytes: Buffer): Head | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  return { status, headers: new Map(headers), bytes: end + 4 };
}

/** The body and where it ends, or how many bytes there must be before it is worth looking again. */
function bodyOf(head: Head, bytes: Buffer): { body: Buffer; end: number } | number {
  if (head.headers.get('transfer-encoding') === 'chunked') return unchunk(bytes, head.bytes);
  const end = head.bytes + Number(head.headers.get('content-length') ?? 0);
  return bytes.length < end ? end : { body: bytes.subarray(head.bytes, end), end };
}

function unchunk(bytes: Buffer, from: number): { body: Buffer; end: number } | number {
  const chunks: Buffer[] = [];
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return bytes.length + 1;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (!(bytes.length >= next)) return next;
    if (size === 0) return { body: Buffer.concat(chunks), end: next };
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = next;
  }
}
