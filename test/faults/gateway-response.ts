/** A form-encoded body that names the order and its own size, and of which every byte is known. */
export function bodyFor(orderId: string, size = 0): Buffer {
  const head = `order=${orderId}&size=${size}\n`;
  return Buffer.concat([Buffer.from(head), Buffer.alloc(size, `${orderId};`)]);
}

/** What a body says it is, compared with what it should be then. */
export function inspectBody(body: Buffer): {
  readonly orderId: string | undefined;
  readonly state: 'whole' | 'part' | 'altered';
} {
  const [, orderId, size] = /^order=([^&\n]+)&size=(\d+)\n/.exec(body.toString('latin1', 0, 200)) ?? [];
  if (orderId === undefined) return { orderId, state: 'altered' };
  const expected = bodyFor(orderId, Number(size));
  if (body.equals(expected)) return { orderId, state: 'whole' };
  return { orderId, state: body.equals(expected.subarray(0, body.length)) ? 'part' : 'altered' };
}

interface ResponseOptions {
  readonly status?: string;
  readonly body: Buffer;
  readonly headers?: readonly string[];
  /** Instead of the true one. */
  readonly length?: number;
}

/** A complete response with `Content-Length`. */
export function responseWith({ status = '200 OK', body, headers = [], length }: ResponseOptions): Buffer {
  const head = [
    `HTTP/1.1 ${status}`,
    `Content-Type: ${body.length > 100_000 ? 'application/octet-stream' : 'text/html'}`,
    `Content-Length: ${length ?? body.length}`,
    ...headers,
  ];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);
}

/** A complete response in chunks, cut into this many pieces. */
export function chunkedResponse(body: Buffer, pieces: number): Buffer[] {
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n';
  const size = Math.ceil(body.length / pieces);
  const chunks = Array.from({ length: pieces }, (_, index) => body.subarray(index * size, (index + 1) * size))
    .filter(({ length }) => length > 0)
    .map((chunk) =>
      Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')]),
    );
  return [Buffer.from(head), ...chunks, Buffer.from('0\r\n\r\n')];
}
