import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Question } from '../child.ts';
import { onMessage } from '../framing.ts';
import { percentile } from '../statistics.ts';
import { token } from '../traffic.ts';
import { answer } from './peer.ts';

export interface LoadOrder extends Question {
  readonly ask: 'load';
  readonly url: string;
  readonly body: string;
  readonly requests: number;
  /** Connections, each with one request in flight at any time. */
  readonly connections: number;
}

/** Durations in seconds. */
export interface LoadResult {
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
}

answer('load', async ({ url, body, requests, connections }: LoadOrder): Promise<LoadResult> => {
  const { hostname, port, host, pathname } = new URL(url);
  const request = textOf(host, pathname, body);
  const sockets = Array.from({ length: connections }, () => connect(Number(port), hostname));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  const latencies: number[] = [];
  let unsent = requests;
  const startedAt = performance.now();
  await Promise.all(sockets.map((socket) => repeat(socket, request, latencies, () => unsent-- > 0)));
  const seconds = (performance.now() - startedAt) / 1000;
  for (const socket of sockets) socket.destroy();
  return { seconds, p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) };
});

/** One request after the other on one connection, as long as there are more. */
async function repeat(
  socket: Socket,
  request: string,
  latencies: number[],
  more: () => boolean,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let sentAt = 0;
  const next = (): void => {
    if (!more()) return resolve();
    sentAt = performance.now();
    socket.write(request);
  };
  onMessage(socket, (head) => {
    latencies.push((performance.now() - sentAt) / 1000);
    if (head.startsWith('HTTP/1.1 200 ')) next();
    else reject(new Error(`answered ${head}`));
  });
  socket.once('error', reject).once('close', () => reject(new Error('the connection was closed')));
  next();
  return promise;
}

function textOf(host: string, path: string, body: string): string {
  return [
    `POST ${path} HTTP/1.1`,
    `Host: ${host}`,
    'Content-Type: application/x-www-form-urlencoded',
    `Content-Length: ${body.length}`,
    `Authorization: Bearer ${token}`,
    'Accept: */*',
    '',
    body,
  ].join('\r\n');
}
