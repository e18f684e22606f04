/** A body that names the order and its own size, and of which every byte is known. */
export function bodyFor(orderId: string, size = 0): Buffer {
  const head = `order=${orderId}&size=${size}\n`;
  return Buffer.concat([Buffer.from(head), Buffer.alloc(size, `${orderId};`)]);
}

/** What a body says it is, compared with what it should be then. */
export function inspectBody(body: Buffer) {
  const [, orderId, size] = /^order=([^&\n]+)&size=(\d+)\n/.exec(body.toString('latin1', 0, 200)) ?? [];
  if (orderId === undefined) return { orderId, state: 'altered' } as const;
  const expected = bodyFor(orderId, Number(size));
  if (body.equals(expected)) return { orderId, state: 'whole' } as const;
  const isPart = body.equals(expected.subarray(0, body.length));
  return { orderId, state: isPart ? 'part' : 'altered' } as const;
}

interface ResponseOptions {
  readonly status?: string;
  readonly body: Buffer;
  readonly headers?: readonly string[];
  /** Instead of the true one. */
  readonly length?: number;
}

export function responseWith({ status = '200 OK', body, headers = [], length }: ResponseOptions): Buffer {
  const type = `Content-Type: ${body.length > 100_000 ? 'application/octet-stream' : 'text/html'}`;
  const head = [`HTTP/1.1 ${status}`, type, `Content-Length: ${length ?? body.length}`, ...headers];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);
}

/** The head and the body in so many pieces at most. */
export function chunkedResponse(body: Buffer, pieces: number): Buffer[] {
  const size = Math.ceil(body.length / pieces);
  const chunks = Array.from({ length: Math.ceil(body.length / size) }, (_, index) => {
    const piece = body.subarray(index * size, (index + 1) * size);
    return Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]);
  });
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n';
  return [Buffer.from(head), ...chunks, Buffer.from('0\r\n\r\n')];
}
