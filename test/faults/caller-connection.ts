import { connect, type Socket } from 'node:net';
import { type RawResponse, ResponseReader } from './response-reader.ts';

/** A connection of a caller, on which the caller decides every byte. */
export class CallerConnection {
  readonly socket: Socket;
  readonly #reader = new ResponseReader();
  #ending: string | undefined;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#reader.push(chunk);
      this.#wake();
    });
    socket.once('end', () => this.#over('FIN'));
    socket.once('close', () => this.#over('closed'));
    socket.on('error', (error) => this.#over('code' in error ? String(error.code) : error.name));
  }

  /** Resolves to an error code where no connection can be made. */
  static async open(port: number): Promise<CallerConnection | string> {
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true });
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    socket.once('connect', () => resolve(undefined));
    socket.once('error', (error) => resolve('code' in error ? String(error.code) : error.name));
    return (await promise) ?? new CallerConnection(socket);
  }

  /** What ended the connection from the other side: `FIN` or an error code. */
  get ending(): string | undefined {
    return this.#ending;
  }

  /** Bytes that were received and belong to no response returned so far. */
  get pending(): number {
    return this.#reader.pending;
  }

  write(bytes: string | Buffer): void {
    if (this.socket.writable) this.socket.write(bytes);
  }

  /** Ends the sending side; responses are still read. */
  finish(): void {
    if (this.socket.writable) this.socket.end();
  }

  close(): void {
    this.socket.destroy();
  }

  reset(): void {
    this.socket.resetAndDestroy();
  }

  /**
   * The next response, a broken one where the connection ends within it; otherwise what ended the connection,
   * or `timeout`.
   *
   * @param patience milliseconds
   */
  async response(patience: number): Promise<RawResponse | string> {
    const until = performance.now() + patience;
    for (;;) {
      const response = this.#reader.next();
      if (response !== undefined) return response;
      if (this.#ending !== undefined) return this.#reader.broken() ?? this.#ending;
      if (!(await this.#news(until - performance.now()))) return 'timeout';
    }
  }

  /** Resolves when any byte has come, or the connection has ended; `false` after so many milliseconds. */
  async firstByte(milliseconds: number): Promise<boolean> {
    if (this.pending > 0 || this.#ending !== undefined) return true;
    return this.#news(milliseconds);
  }

  /** `false` where nothing happened in that time. */
  #news(milliseconds: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), milliseconds);
    this.#wake = () => resolve(true);
    return promise.finally(() => clearTimeout(timer));
  }

  #over(ending: string): void {
    this.#ending ??= ending;
    this.#wake();
  }
}
