import { connect, createServer, type Socket } from 'node:net';
import { listen } from './listening.ts';

/** Forwards bytes between a client and a server, and can hold back those of the server. */
export interface Relay {
  readonly port: number;
  readonly connections: () => number;
  /** From now on, holds back bytes of the server. */
  readonly hold: () => void;
  /** Number of bytes held back. */
  readonly held: () => number;
  /** Forwards the held bytes except the last ones, which follow when the client sends something. */
  readonly releaseAllBut: (bytes: number) => void;
  /** Connects further clients to another port. */
  readonly leadTo: (port: number) => void;
  readonly close: () => Promise<void>;
}

export async function startRelay(serverPort: number): Promise<Relay> {
  let target = serverPort;
  let connections = 0;
  let kept: { client: Socket; bytes: Buffer } | undefined;
  let holding = false;
  const server = createServer({ noDelay: true }, (client) => {
    connections += 1;
    const upstream = connect({ port: target, host: '127.0.0.1', noDelay: true });
    // 'close' follows and closes the other socket.
    for (const socket of [client, upstream]) socket.on('error', () => {});
    client.on('data', (chunk: Buffer) => {
      if (kept?.client === client && !holding) {
        client.write(kept.bytes);
        kept = undefined;
      }
      upstream.write(chunk);
    });
    upstream.on('data', (chunk: Buffer) => {
      if (holding) kept = { client, bytes: Buffer.concat([kept?.bytes ?? Buffer.alloc(0), chunk]) };
      else client.write(chunk);
    });
    client.once('close', () => upstream.destroy());
    upstream.once('close', () => client.destroy());
  });
  const { port, close } = await listen(server);
  return {
    port,
    connections: () => connections,
    hold: () => {
      holding = true;
    },
    held: () => kept?.bytes.length ?? 0,
    releaseAllBut: (bytes) => {
      holding = false;
      if (kept === undefined) return;
      const count = kept.bytes.length - bytes;
      kept.client.write(kept.bytes.subarray(0, count));
      kept = { client: kept.client, bytes: kept.bytes.subarray(count) };
    },
    leadTo: (other) => {
      target = other;
    },
    close,
  };
}
