/** One response, parsed from its bytes. */
export interface RawResponse {
  readonly status: number;
  /** By lower-case name; repeated ones joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** `false`: the connection ended before. */
  readonly complete: boolean;
}

interface Head extends Pick<RawResponse, 'status' | 'headers'> {
  readonly bytes: number;
}

interface Body {
  readonly body: Buffer;
  readonly end: number;
}

/** Splits the bytes of one connection into responses, without an HTTP library. */
export class ResponseReader {
  #bytes = Buffer.alloc(0);
  /** Nothing can be complete before so many bytes are there: large bodies are not parsed for each chunk. */
  #needed = 1;

  push(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
  }

  /** Number of bytes that belong to no response that was returned. */
  get pending(): number {
    return this.#bytes.length;
  }

  /** The next response; `undefined` while it is incomplete. @param over whether the connection has ended */
  next(over = false): RawResponse | undefined {
    if (this.pending < this.#needed && !over) return undefined;
    const head = headOf(this.#bytes);
    if (head === undefined) return undefined;
    const body = bodyOf(head, this.#bytes, over);
    if (typeof body === 'number') {
      this.#needed = body;
      return undefined;
    }
    this.#dropTo(body.end);
    return { status: head.status, headers: head.headers, body: body.body, complete: true };
  }

  /** The received part of a response when the connection has ended; `undefined` without a complete head. */
  incomplete(): RawResponse | undefined {
    const head = headOf(this.#bytes);
    if (head === undefined) return undefined;
    const { status, headers, bytes } = head;
    const body = this.#bytes.subarray(bytes);
    this.#dropTo(this.pending);
    return { status, headers, body, complete: false };
  }

  #dropTo(end: number): void {
    this.#bytes = this.#bytes.subarray(end);
    this.#needed = 1;
  }
}

function headOf(bytes: Buffer): Head | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]+): ?(.*)$/.exec(line) ?? [];
    const key = name.toLowerCase();
    headers[key] = key in headers ? `${headers[key]}, ${value}` : value;
  }
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  return { status, headers, bytes: end + 4 };
}

/** The body and where it ends, or how many bytes are needed before it can be parsed. */
function bodyOf({ status, headers, bytes: start }: Head, bytes: Buffer, over: boolean): Body | number {
  if (status === 100) return { body: Buffer.alloc(0), end: start };
  if (headers['transfer-encoding'] === 'chunked') return unchunk(bytes, start);
  const length = headers['content-length'];
  // Without a length, the end of the connection is the end of the body.
  if (length === undefined && !over) return bytes.length + 1;
  const end = length === undefined ? bytes.length : start + Number(length);
  return bytes.length < end ? end : { body: bytes.subarray(start, end), end };
}

function unchunk(bytes: Buffer, from: number): Body | number {
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
