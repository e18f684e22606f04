import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { TlsOptions } from 'node:tls';
import { startTcpServer } from './faulty-gateway.ts';

/**
 * What the proxy does with a CONNECT request: makes the tunnel, at once or after these bytes; responds with these bytes
 * and keeps the connection; never responds; or ends the connection.
 */
export type Behavior =
  | 'tunnel'
  | { readonly interim: readonly string[] }
  | { readonly responds: string }
  | 'silent'
  | 'reset'
  | 'end';

export interface TestEgressProxy {
  readonly url: string;
  readonly port: number;
  /** For each connection from now on. */
  behavior: Behavior | ((head: string) => Behavior);
  /** The heads of the CONNECT requests so far, up to a thousand. */
  readonly heads: readonly string[];
  /** The bytes from clients behind the heads, up to a thousand chunks. */
  readonly tunneled: () => Buffer;
  /** Tunnels that are open now. */
  readonly open: () => number;
  /** Ends all tunnels. */
  readonly drop: () => void;
  readonly close: () => Promise<void>;
}

/** Heads, and chunks of tunnels, that are recorded. */
const recorded = 1_000;

/** An HTTP proxy that knows CONNECT only. */
export async function startEgressProxy(tls?: TlsOptions): Promise<TestEgressProxy> {
  const heads: string[] = [];
  const chunks: Buffer[] = [];
  const tunnels = new Set<Socket>();
  const tunnel = (client: Socket, head: string): void => {
    const [, host = '', port = ''] = /^CONNECT (\S+):(\d+) HTTP\/1\.1\r\n/.exec(head) ?? [];
    const server = connect({ host, port: Number(port), noDelay: true }, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      tunnels.add(client);
    });
    server.on('error', () => client.write('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n'));
    client.on('data', (chunk: Buffer) => {
      if (chunks.length < recorded) chunks.push(chunk);
      server.write(chunk);
    });
    server.on('data', (chunk: Buffer) => client.write(chunk));
    client.once('close', () => {
      tunnels.delete(client);
      server.destroy();
    });
    server.once('close', () => client.end());
  };
  const afterInterim = async (client: Socket, head: string, parts: readonly string[]): Promise<void> => {
    for (const part of parts) {
      client.write(part);
      await wait(10);
    }
    tunnel(client, head);
  };
  const onConnection = (client: Socket): void => {
    let head = '';
    const read = (chunk: Buffer): void => {
      head += chunk.toString('latin1');
      if (!head.includes('\r\n\r\n')) return;
      client.off('data', read);
      if (heads.length < recorded) heads.push(head);
      const behavior = typeof proxy.behavior === 'function' ? proxy.behavior(head) : proxy.behavior;
      if (behavior === 'tunnel') tunnel(client, head);
      else if (behavior === 'reset') client.resetAndDestroy();
      else if (behavior === 'end') client.end();
      else if (behavior === 'silent') client.pause();
      else if ('responds' in behavior) client.write(behavior.responds);
      else void afterInterim(client, head, behavior.interim);
    };
    client.on('data', read);
  };
  const { url, port, close } = await startTcpServer(onConnection, tls);
  const proxy: TestEgressProxy = {
    url,
    port,
    behavior: 'tunnel',
    heads,
    tunneled: () => Buffer.concat(chunks),
    open: () => tunnels.size,
    drop: () => {
      for (const client of tunnels) client.destroy();
    },
    close,
  };
  return proxy;
}
