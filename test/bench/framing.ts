import type { Socket } from 'node:net';

const headEnd = Buffer.from('\r\n\r\n');

/**
 * Calls back with the head of every HTTP/1.1 message that has arrived whole.
 *
 * The ends of the wire speak through this instead of `node:http`, so that little of the machine's time goes to
 * what is not measured. Bodies need a Content-Length.
 *
 * @throws Error, in the socket's handler, for a message without one
 */
export function onMessage(socket: Socket, seen: (head: string) => void): void {
  let pending: Buffer = Buffer.alloc(0);
  socket.setNoDelay(true).on('data', (chunk: Buffer) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    for (;;) {
      const at = pending.indexOf(headEnd);
      if (at === -1) return;
      const head = pending.toString('latin1', 0, at);
      const end = at + headEnd.length + lengthOf(head);
      if (pending.length < end) return;
      pending = pending.subarray(end);
      seen(head);
    }
  });
}

function lengthOf(head: string): number {
  const length = /^content-length: *(\d+) *$/im.exec(head)?.[1];
  if (length === undefined) throw new Error(`no Content-Length in ${head}`);
  return Number(length);
}
