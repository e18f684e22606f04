import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

/**
 * What a client may send until its handshake is complete: a ClientHello and a chain of about four certificates. What
 * OpenSSL does with them is one step that nothing can interrupt: 8 ms for each 1.2 KB of RSA keys that were made up for it.
 */
const maxHandshakeBytes = 8_192;

/** Half of the event loop at most is for handshakes: after their steps, the next one waits as long as those took. */
export class HandshakeQueue {
  readonly #waiting: GuardedConnection[] = [];
  /** Called for a connection that is ended because its client sent more than allowed. */
  readonly tooLarge: (socket: Socket) => void;
  #current: GuardedConnection | undefined;
  #running = false;
  /** Milliseconds of steps since the last pause. */
  #spent = 0;

  constructor(tooLarge: (socket: Socket) => void) {
    this.tooLarge = tooLarge;
  }

  /** The connection of which bytes were passed to the TLS layer in this turn of the loop. */
  get current(): GuardedConnection | undefined {
    return this.#current;
  }

  add(connection: GuardedConnection): void {
    this.#waiting.push(connection);
    if (!this.#running) this.#next();
  }

  #next(): void {
    this.#current = this.#waiting.shift();
    this.#running = this.#current !== undefined;
    if (this.#current === undefined) return;
    const began = performance.now();
    this.#current.passOn();
    this.#spent += performance.now() - began;
    // What the step completed is known at the end of this turn.
    setImmediate(() => {
      this.#current?.afterStep();
      this.#current = undefined;
      this.#pause();
    });
  }

  /** Timers take a millisecond at least. With one after each tiny step, clients that send single bytes would fill the queue. */
  #pause(): void {
    if (this.#spent < 1) {
      setImmediate(() => this.#next());
    } else {
      setTimeout(() => this.#next(), this.#spent);
      this.#spent = 0;
    }
  }
}

/**
 * A TCP connection of which the TLS layer gets a bounded number of bytes, in turns, until the handshake is complete. It
 * stays between the two, since Node reads a connection either itself from its first byte on or not at all.
 */
export class GuardedConnection extends Duplex {
  readonly #socket: Socket;
  readonly #queue: HandshakeQueue;
  #left = maxHandshakeBytes;
  #held: Buffer = Buffer.alloc(0);
  #complete = false;
  #passed = 0;
  /** What follows when all that is held was passed on. */
  readonly #ends: (() => void)[] = [];

  /** @param queue shared by the connections of a server */
  constructor(socket: Socket, queue: HandshakeQueue) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    this.#queue = queue;
    socket.allowHalfOpen = true;
    socket
      .on('data', (chunk: Buffer) => this.#receive(chunk))
      .once('end', () => this.#afterHeld(() => this.push(null)))
      .once('error', (error) => this.#afterHeld(() => this.destroy(error)))
      .once('close', () => this.#afterHeld(() => this.destroy()));
  }

  handshakeComplete(socket: TLSSocket): void {
    this.#complete = true;
    this.namePeer(socket);
  }

  /** Node finds the peer only of a TCP connection that it reads itself. */
  namePeer(socket: TLSSocket): void {
    const { remoteAddress, remotePort } = this.#socket;
    Object.defineProperties(socket, {
      remoteAddress: { value: remoteAddress },
      remotePort: { value: remotePort },
    });
  }

  override _read(): void {
    if (this.#complete && this.#held.length === 0) this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  #receive(chunk: Buffer): void {
    if (this.#complete && this.#held.length === 0) {
      if (!this.push(chunk)) this.#socket.pause();
      return;
    }
    const isWaiting = this.#held.length > 0;
    this.#held = Buffer.concat([this.#held, chunk]);
    // Until then it is read: with a reset of the connection an alert that was not read would be lost.
    if (this.#complete || this.#held.length > this.#left) this.#socket.pause();
    if (!isWaiting) this.#queue.add(this);
  }

  #afterHeld(end: () => void): void {
    if (this.#held.length === 0) end();
    else this.#ends.push(end);
  }

  /** For the queue: the next bytes for the TLS layer. */
  passOn(): void {
    if (this.destroyed) return;
    this.#passed = Math.min(this.#held.length, this.#left);
    this.#left -= this.#passed;
    this.push(this.#held.subarray(0, this.#passed));
  }

  /** For the queue. */
  afterStep(): void {
    const rest = this.#held.subarray(this.#passed);
    this.#held = this.#complete ? Buffer.alloc(0) : rest;
    if (!this.#complete && this.#left === 0) {
      if (!this.destroyed) this.#queue.tooLarge(this.#socket);
      this.destroy();
    } else if (this.#held.length > 0) this.#queue.add(this);
    else {
      if (rest.length === 0 || this.push(rest)) this.#socket.resume();
      for (const end of this.#ends.splice(0)) end();
    }
  }
}
