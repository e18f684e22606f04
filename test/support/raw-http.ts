import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** One answer as its bytes say, read without an HTTP library. */
export interface RawAnswer {
  readonly status: number;
  /** By lower-case name; repeated ones joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** How the other side ended a connection: FIN, or the error code of a broken one. */
export type Ending = 'FIN' | (string & {});

/** A connection on which a test decides every byte. */
export class RawConnection {
  readonly #socket: Socket;
  readonly #ended: Promise<Ending>;
  #received = Buffer.alloc(0);
  #over = false;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    const { promise, resolve } = Promise.withResolvers<Ending>();
    socket.once('end', () => resolve('FIN'));
    socket.on('error', (error) => resolve('code' in error ? String(error.code) : error.name));
    this.#ended = promise.finally(() => {
      this.#over = true;
      this.#wake();
    });
  }

  /** @param url of which host and port are used */
  static async open(url: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true });
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  send(bytes: string | Buffer): this {
    this.#socket.write(bytes);
    return this;
  }

  /** Reads nothing that comes from now on. */
  pause(): this {
    this.#socket.pause();
    return this;
  }

  /** Says that nothing more will be sent, but goes on reading. */
  finish(): this {
    this.#socket.end();
    return this;
  }

  /** Leaves with a RST, as a process does that dies with unread data. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Resolves when so many bytes have come that are no part of an answer yet. */
  async received(count: number): Promise<void> {
    while (this.#received.length < count && !this.#over) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The next answer, `100 Continue` included; the bytes behind it stay for the next call. */
  async answer(): Promise<RawAnswer> {
    for (;;) {
      const parsed = parse(this.#received, this.#over);
      if (parsed !== undefined) {
        this.#received = this.#received.subarray(parsed.length);
        return parsed.answer;
      }
      if (this.#over) throw new Error(`the connection ended after ${this.#received.length} bytes`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Resolves when the other side has ended the connection, whatever it sent before. */
  async gone(): Promise<Ending> {
    const ending = await this.#ended;
    this.#socket.destroy();
    return ending;
  }

  /** Resolves when the other side has ended the connection; fails where bytes nobody asked for came before. */
  async ended(): Promise<Ending> {
    await this.#ended;
    if (this.#received.length > 0) throw new Error(`${this.#received.length} unexpected bytes`);
    return this.gone();
  }
}

/** `undefined` while bytes are missing. */
function parse(bytes: Buffer, over: boolean): { answer: RawAnswer; length: number } | undefined {
  const headLength = bytes.indexOf('\r\n\r\n') + 4;
  if (headLength === 3) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headLength - 4).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]+): ?(.*)$/.exec(line) ?? [];
    const key = name.toLowerCase();
    headers[key] = key in headers ? `${headers[key]}, ${value}` : value;
  }
  const rest = bytes.subarray(headLength);
  const body = status === 100 ? { body: Buffer.alloc(0), length: 0 } : bodyOf(headers, rest, over);
  return body && { answer: { status, headers, body: body.body }, length: headLength + body.length };
}

function bodyOf(
  headers: Readonly<Record<string, string>>,
  rest: Buffer,
  over: boolean,
): { body: Buffer; length: number } | undefined {
  if (headers['transfer-encoding'] === 'chunked') return unchunk(rest);
  const length = headers['content-length'] === undefined ? undefined : Number(headers['content-length']);
  if (length === undefined) return over ? { body: rest, length: rest.length } : undefined;
  return rest.length < length ? undefined : { body: rest.subarray(0, length), length };
}

function unchunk(bytes: Buffer): { body: Buffer; length: number } | undefined {
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (bytes.length < next) return undefined;
    if (size === 0) return { body: Buffer.concat(chunks), length: next };
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = next;
  }
}

const formType = 'Content-Type: application/x-www-form-urlencoded';

/** A request with a form, as text: a Host, a form type and a Content-Length unless `lines` say otherwise. */
export function formRequest(target: string, body = '', lines: readonly string[] = []): string {
  const given = (name: string): boolean => lines.some((line) => line.toLowerCase().startsWith(`${name}:`));
  const head = [
    `POST ${target} HTTP/1.1`,
    'Host: countersign.test',
    ...(given('content-type') ? [] : [formType]),
    ...(given('transfer-encoding') || given('content-length')
      ? []
      : [`Content-Length: ${Buffer.byteLength(body)}`]),
    ...lines,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}
