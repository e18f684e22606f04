import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type RawResponse, ResponseReader } from './response-reader.ts';

/** How a connection ended: FIN or an error code of the other side; `closed` by this one. */
type Ending = 'FIN' | 'closed' | (string & {});

/** The code of an error of a socket. Not by `instanceof`: in a test, Node's errors have another constructor. */
export const codeOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : String(error);

/** A connection on which a test decides every byte. */
export class RawConnection {
  readonly socket: Socket;
  readonly #tcp: Socket;
  readonly #reader = new ResponseReader();
  readonly #waiting = new Set<() => void>();
  #ending: Ending | undefined;

  private constructor(socket: Socket, tcp: Socket) {
    this.socket = socket;
    this.#tcp = tcp;
    socket.on('data', (chunk: Buffer) => {
      this.#reader.push(chunk);
      this.#wake();
    });
    socket.once('end', () => this.#over('FIN'));
    socket.once('close', () => this.#over('closed'));
    socket.on('error', (error) => this.#over(codeOf(error)));
  }

  /**
   * @param url of which host and port are used
   * @param ca of the server's certificate, with TLS
   * @throws the error of a connection that cannot be made
   */
  static async open(url: string, ca?: Buffer): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const options = { host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true };
    const tcp = connect(options);
    const socket = ca === undefined ? tcp : connectTls({ socket: tcp, host: hostname, ca });
    socket.allowHalfOpen = true;
    await once(socket, ca === undefined ? 'connect' : 'secureConnect');
    return new RawConnection(socket, tcp);
  }

  /** What ended the connection, once it has ended. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  /** Number of bytes that were received and belong to no response that was returned. */
  get pending(): number {
    return this.#reader.pending;
  }

  send(bytes: string | Buffer): this {
    if (this.socket.writable) this.socket.write(bytes);
    return this;
  }

  /** Stops reading. */
  pause(): this {
    this.socket.pause();
    return this;
  }

  /** Ends the sending side; responses are still read. */
  finish(): this {
    if (this.socket.writable) this.socket.end();
    return this;
  }

  /** Closes with a RST, like a process that dies with unread data. */
  reset(): void {
    this.#tcp.resetAndDestroy();
  }

  close(): void {
    this.socket.destroy();
  }

  /** Resolves when so many bytes are pending, or the connection has ended; `false` after the given number of milliseconds. */
  received(count: number, milliseconds?: number): Promise<boolean> {
    return this.#until(() => this.pending >= count || this.#ending !== undefined, milliseconds);
  }

  /**
   * The next response, `100 Continue` included; the bytes after it stay for the next call.
   *
   * @throws Error if the connection ends before
   */
  async response(): Promise<RawResponse> {
    const response = await this.responseOrEnd();
    if (typeof response !== 'string' && response.complete) return response;
    throw new Error(`the connection ended within a response: ${this.#ending}`);
  }

  /**
   * The next response, an incomplete one if the connection ends within it; otherwise what ended the connection, or
   * `timeout` after the given number of milliseconds.
   */
  async responseOrEnd(milliseconds?: number): Promise<RawResponse | Ending> {
    let response: RawResponse | undefined;
    const inTime = await this.#until(() => {
      response = this.#reader.next(this.#ending !== undefined);
      return response !== undefined || this.#ending !== undefined;
    }, milliseconds);
    if (!inTime) return 'timeout';
    return response ?? this.#reader.incomplete() ?? this.#ending ?? 'closed';
  }

  /** Resolves when the other side has ended the connection, whatever it sent before. */
  async gone(): Promise<Ending> {
    await this.#until(() => this.#ending !== undefined);
    this.socket.destroy();
    return this.#ending ?? 'closed';
  }

  /** Resolves when the other side has ended the connection. @throws Error if unexpected bytes came before */
  async ended(): Promise<Ending> {
    const ending = await this.gone();
    if (this.pending > 0) throw new Error(`${this.pending} unexpected bytes`);
    return ending;
  }

  /** Checks at all bytes and at the end; `false` after the given number of milliseconds. */
  async #until(holds: () => boolean, milliseconds?: number): Promise<boolean> {
    const { promise: timeout, resolve: giveUp } = Promise.withResolvers<false>();
    const timer = milliseconds === undefined ? undefined : setTimeout(giveUp, milliseconds, false);
    try {
      while (!holds()) {
        const news = new Promise<true>((resolve) => this.#waiting.add(() => resolve(true)));
        if (!(await Promise.race([news, timeout]))) return false;
      }
      return true;
    } finally {
      clearTimeout(timer);
    }
  }

  #over(ending: Ending): void {
    this.#ending ??= ending;
    this.#wake();
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
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
