import { createServer, type ServerResponse } from 'node:http';
import { listen } from '../support/listening.ts';
import { warmUp } from './measure.ts';
import { startCountersign } from './proxies.ts';
import { compareWays } from './side-by-side.ts';
import { startUpstream } from './upstream.ts';
import { type Way, wayThrough } from './ways.ts';

interface TracesOptions {
  readonly rounds: number;
  readonly seconds: number;
  readonly warmUpRequests: number;
}

/** How they respond to an export. */
const receivers = {
  accepts: (response: ServerResponse) => response.end(),
  hangs: () => {},
  'responds with 429': (response: ServerResponse) => response.writeHead(429).end(),
  'responds with HTML': (response: ServerResponse) => response.end('<html>'),
} as const;

/** HMAC without traces, with some and with all, and with receivers that fail. */
export async function measureTraces({ rounds, seconds, warmUpRequests }: TracesOptions): Promise<string> {
  const upstream = await startUpstream();
  const ends: (() => unknown)[] = [upstream.stop];
  const ways: Way[] = [];
  const start = async (name: string, tracing: object | undefined): Promise<void> => {
    const proxy = await startCountersign(upstream.url, 2048, tracing === undefined ? {} : { tracing });
    ends.unshift(proxy.stop);
    const way = { ...wayThrough('Countersign', 'HMAC', proxy), name };
    await warmUp(way, warmUpRequests, { maxSeconds: 30 });
    ways.push(way);
  };
  try {
    const urls: Record<string, string> = {};
    for (const [name, respond] of Object.entries(receivers)) {
      const server = createServer((request, response) =>
        request.resume().once('end', () => respond(response)),
      );
      const { port, close } = await listen(server);
      ends.push(close);
      urls[name] = `http://127.0.0.1:${port}`;
    }
    await start('not configured', undefined);
    await start('ratio 0.01', { otlp: urls['accepts'], sampleRatio: 0.01 });
    await start('ratio 1', { otlp: urls['accepts'], sampleRatio: 1 });
    await start('ratio 1, the receiver is down', { otlp: 'http://127.0.0.1:9', sampleRatio: 1 });
    for (const name of ['hangs', 'responds with 429', 'responds with HTML'] as const)
      await start(`ratio 1, the receiver ${name}`, { otlp: urls[name], sampleRatio: 1 });
    const what = { what: 'traces', without: 'the receiver', memory: true };
    return await compareWays(ways, { rounds, seconds, moderate: 500, ...what });
  } finally {
    for (const end of ends) await end();
  }
}
