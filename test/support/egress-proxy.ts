import { connect, type Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { startTcpServer } from './faulty-gateway.ts';

/**
 * What the proxy does with a CONNECT request: makes the tunnel, responds with these bytes and keeps the connection,
 * never responds, or ends the connection.
 */
export type Behavior = 'tunnel' | 'silent' | 'reset' | 'end' | { readonly responds: string };

export interface TestEgressProxy {
  readonly url: string;
  readonly port: number;
  /** For each connection from now on. */
  behavior: Behavior;
  /** The head of each CONNECT request so far. */
  readonly heads: readonly string[];
  /** All bytes from clients behind the heads. */
  readonly tunneled: () => Buffer;
  /** Tunnels that are open now. */
  readonly open: () => number;
  /** Ends all tunnels. */
  readonly drop: () => void;
  readonly close: () => Promise<void>;
}

/** An HTTP proxy that knows CONNECT only. */
export async function startEgressProxy(tls?: TlsOptions, onPort = 0): Promise<TestEgressProxy> {
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
      chunks.push(chunk);
      server.write(chunk);
    });
    server.on('data', (chunk: Buffer) => void client.write(chunk));
    client.once('close', () => {
      tunnels.delete(client);
      server.destroy();
    });
    server.once('close', () => client.end());
  };
  const onConnection = (client: Socket): void => {
    let head = '';
    const read = (chunk: Buffer): void => {
      head += chunk.toString('latin1');
      if (!head.includes('\r\n\r\n')) return;
      client.off('data', read);
      heads.push(head);
      const { behavior } = proxy;
      if (behavior === 'tunnel') tunnel(client, head);
      else if (behavior === 'reset') client.resetAndDestroy();
      else if (behavior === 'end') client.end();
      else if (behavior !== 'silent') client.write(behavior.responds);
    };
    client.on('data', read);
  };
  const { url, port, close } = await startTcpServer(onConnection, tls, onPort);
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
