import type { Socket } from 'node:net';
import { closedUrl, startTcpServer } from '../support/faulty-gateway.ts';
import { Random } from '../support/random.ts';
import type { Ca } from '../support/stub-vault/certificates.ts';
import { type FaultName, faults, type GatewayRequest, type SiteName } from './faults.ts';
import type { RequestRecord } from './ledger.ts';
import { retryFaults } from './plan.ts';

interface GatewayOptions {
  readonly seed: number;
  readonly recordOf: (orderId: string) => RequestRecord | undefined;
  readonly ca: Ca;
}

export interface FaultGateway {
  /** Base URL of each site. */
  readonly urls: Readonly<Record<SiteName, string>>;
  readonly close: () => Promise<void>;
}

/** The gateway of all environments, one port each, that fails as the plan of each request says. */
export async function startFaultGateway(options: GatewayOptions): Promise<FaultGateway> {
  const reader = (socket: Socket): void => void new Connection(socket, options);
  const plain = await startTcpServer(reader);
  const secure = await startTcpServer(reader, options.ca.issue('secure'));
  const reset = await startTcpServer((socket) => void socket.resetAndDestroy());
  const cut = await startTcpServer((socket) => void socket.once('data', () => socket.destroy()));
  return {
    urls: {
      plain: plain.url,
      secure: secure.url,
      refused: closedUrl,
      'accept-reset': reset.url,
      'tls-cut': cut.url.replace('http:', 'https:'),
    },
    close: async () => {
      await Promise.all([plain, secure, reset, cut].map((server) => server.close()));
    },
  };
}

/** Reads requests from bytes, and does the fault of each. */
class Connection {
  readonly #socket: Socket;
  readonly #options: GatewayOptions;
  #received = Buffer.alloc(0);
  /** What follows when the request is complete; `undefined` between requests. */
  #whole: (() => void) | undefined;

  constructor(socket: Socket, options: GatewayOptions) {
    this.#socket = socket;
    this.#options = options;
    // Otherwise a second small write would wait for the proxy's next packet, which is its next request.
    socket.setNoDelay(true);
    // The proxy may disconnect at any time.
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#read();
    });
  }

  #read(): void {
    this.#whole ??= this.#begin();
    const length = lengthOf(this.#received);
    if (this.#whole === undefined || length === undefined || this.#received.length < length) return;
    this.#received = this.#received.subarray(length);
    const whole = this.#whole;
    this.#whole = undefined;
    whole();
    if (this.#received.length > 0) this.#read();
  }

  /** Adds the upstream request to the record; the first attempt has the fault of the plan. */
  #begin(): (() => void) | undefined {
    const { seed, recordOf } = this.#options;
    const lineEnd = this.#received.indexOf('\r\n');
    if (lineEnd === -1) return undefined;
    const [orderId = ''] = /o-\d+-\d+/.exec(this.#received.toString('latin1', 0, lineEnd)) ?? [];
    const record = recordOf(orderId);
    if (record === undefined) throw new Error(`no caller has sent ${this.#received.toString('latin1')}`);
    const attempt = record.upstream.length;
    const random = new Random(seed, 'gateway', orderId, attempt);
    const name: FaultName = attempt === 0 ? record.plan.fault : random.pick(retryFaults);
    const seen = { fault: name, at: performance.now(), whole: false };
    record.upstream.push(seen);
    const { point, act } = faults[name];
    const request = this.#requestOf(orderId, random);
    if (point === 'request') act(request);
    return () => {
      seen.whole = true;
      if (point !== 'request') act(request);
    };
  }

  #requestOf(orderId: string, random: Random): GatewayRequest {
    const socket = this.#socket;
    const after = (milliseconds: number, act: () => void): void => {
      setTimeout(() => {
        if (!socket.destroyed) act();
      }, milliseconds);
    };
    return {
      orderId,
      random,
      write: (bytes) => {
        if (socket.writable) socket.write(bytes);
      },
      end: () => void socket.end(),
      // A TLS connection cannot be reset directly: destroyed with unread data, the system resets it.
      reset: () => void ('encrypted' in socket ? socket.destroy() : socket.resetAndDestroy()),
      pauseReading: (milliseconds) => {
        socket.pause();
        after(milliseconds, () => void socket.resume());
      },
      after,
    };
  }
}

/** Bytes of head and body of the first request; `undefined` while the head is incomplete. */
function lengthOf(bytes: Buffer): number | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [, length = '0'] = /^content-length: *(\d+)/im.exec(bytes.toString('latin1', 0, headEnd)) ?? [];
  return headEnd + 4 + Number(length);
}
