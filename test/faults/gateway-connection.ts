import type { Socket } from 'node:net';
import { Random } from '../support/random.ts';
import { type FaultName, faultRow } from './fault-table.ts';
import { type GatewayRequest, respond } from './gateway-faults.ts';
import type { SurplusBefore } from './ledger.ts';

/** What a connection needs to choose the fault of a request and to record it. */
export interface Expectation {
  /** Called with the first line of each request. */
  readonly seen: (
    orderId: string,
    surplus: SurplusBefore | undefined,
  ) => { fault: FaultName; whole: () => void };
  /** Bytes without an order id were received. */
  readonly unreadable: () => void;
  /** Closes the site's port for this many milliseconds. */
  readonly refuse: (milliseconds: number) => void;
  readonly seed: number;
  /** Milliseconds by which what is seen now may have happened earlier. */
  readonly lateBy: () => number;
}

interface Current {
  readonly request: GatewayRequest;
  readonly whole: () => void;
  /** Bytes from the first of the head to the last of the body; unknown until the head is complete. */
  end: number | undefined;
  /** Whether the fault happens before the last byte is read. */
  readonly early: boolean;
}

/** One connection of the gateway: reads requests from bytes and simulates the fault of each. */
export class GatewayConnection {
  readonly #socket: Socket;
  readonly #expectation: Expectation;
  readonly #timers = new Set<NodeJS.Timeout>();
  #received: Buffer = Buffer.alloc(0);
  #current: Current | undefined;
  #surplus: 'none' | 'joined' | 'separate' = 'none';
  /** When all that was sent before the last write had been read; `undefined` until then. */
  #settledAt: number | undefined;
  /** How many have begun. */
  #requests = 0;

  constructor(socket: Socket, expectation: Expectation) {
    this.#socket = socket;
    this.#expectation = expectation;
    // Otherwise a second small write would wait for the proxy's next packet, which is its next request.
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      this.#read();
    });
    // The proxy may disconnect at any time.
    socket.on('error', () => {});
    socket.once('close', () => {
      for (const timer of this.#timers) clearTimeout(timer);
      if (this.#current === undefined && this.#received.length > 0) expectation.unreadable();
    });
  }

  #read(): void {
    if (this.#current === undefined) this.#begin();
    const current = this.#current;
    if (current === undefined) return;
    current.end ??= lengthOf(this.#received);
    if (current.end === undefined || this.#received.length < current.end) return;
    this.#received = this.#received.subarray(current.end);
    this.#current = undefined;
    current.whole();
    if (!current.early) respond(current.request);
    if (this.#received.length > 0) this.#read();
  }

  #begin(): void {
    const lineEnd = this.#received.indexOf('\r\n');
    if (lineEnd === -1) return;
    const [orderId] = /o-\d+-\d+/.exec(this.#received.toString('latin1', 0, lineEnd)) ?? [];
    if (orderId === undefined) {
      this.#expectation.unreadable();
      this.#socket.destroy();
      return;
    }
    const { fault, whole } = this.#expectation.seen(orderId, this.#surplusBefore());
    const early = faultRow(fault).point === 'request';
    const request = this.#request(orderId, fault);
    this.#current = { request, whole, end: undefined, early };
    if (early) respond(request);
  }

  #surplusBefore(): SurplusBefore | undefined {
    if (this.#surplus === 'none') return undefined;
    const { lateBy } = this.#expectation;
    const now = performance.now();
    const milliseconds = Math.max(0, now - (this.#settledAt ?? now) - lateBy());
    return { joined: this.#surplus === 'joined', milliseconds };
  }

  #request(orderId: string, fault: FaultName): GatewayRequest {
    const socket = this.#socket;
    const number = (this.#requests += 1);
    return {
      orderId,
      fault,
      random: new Random(this.#expectation.seed, 'gateway', orderId, fault),
      write: (bytes) => this.#write(bytes),
      writeSurplus: (bytes, joined) => {
        this.#surplus = joined && this.#surplus !== 'separate' ? 'joined' : 'separate';
        this.#write(bytes);
      },
      end: () => void socket.end(),
      reset: () => reset(socket),
      pauseReading: (milliseconds) => {
        socket.pause();
        this.#after(milliseconds, () => void socket.resume());
      },
      after: (milliseconds, act) => this.#after(milliseconds, act),
      isLast: () => this.#requests === number && this.#received.length === 0,
      refuse: this.#expectation.refuse,
    };
  }

  #write(bytes: string | Buffer): void {
    if (this.#socket.writable) this.#socket.write(bytes);
    this.#settledAt = undefined;
    // Between these two, the event loop polls every socket once.
    setImmediate(() =>
      setImmediate(() => {
        this.#settledAt = performance.now();
      }),
    );
  }

  #after(milliseconds: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      if (!this.#socket.destroyed) act();
    }, milliseconds);
    this.#timers.add(timer);
  }
}

/** A TLS connection cannot be reset directly: destroyed with unread data, the system resets it. */
export function reset(socket: Socket): void {
  if ('encrypted' in socket) socket.destroy();
  else socket.resetAndDestroy();
}

/** Head and body of the first request; `undefined` while the head is incomplete. */
function lengthOf(bytes: Buffer): number | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [, length = '0'] = /^content-length: *(\d+)/im.exec(bytes.toString('latin1', 0, headEnd)) ?? [];
  return headEnd + 4 + Number(length);
}
