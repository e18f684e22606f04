import type { Socket } from 'node:net';

/** Counts the open connections of each client address. It knows no address without one, so its memory is bounded. */
export class AddressLimit {
  /** Connections of one address. */
  limit = Number.POSITIVE_INFINITY;
  readonly #open = new Map<string, number>();

  /** @returns `false` if the address has as many connections as it may have */
  admits(socket: Socket): boolean {
    const address = addressOf(socket);
    const open = this.#open.get(address) ?? 0;
    if (open >= this.limit) return false;
    this.#open.set(address, open + 1);
    socket.once('close', () => this.#release(address));
    return true;
  }

  #release(address: string): void {
    const open = (this.#open.get(address) ?? 0) - 1;
    if (open > 0) this.#open.set(address, open);
    else this.#open.delete(address);
  }
}

/** On a socket for both families, IPv4 addresses are mapped (RFC 4291 section 2.5.5.2). */
function addressOf({ remoteAddress = 'gone' }: Socket): string {
  return remoteAddress.replace(/^::ffff:(?=\d+\.)/i, '');
}
