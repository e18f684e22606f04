import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, expect, it } from '@jest/globals';
import { createPageSharing } from '../../../src/observability/shared-page.ts';
import { type Listening, listen } from '../../support/listening.ts';

let listening: Listening | undefined;
afterEach(() => listening?.close());

it('renders pages one after the other, even after a failed one', async () => {
  const share = createPageSharing({ interval: 0, monotonic: () => performance.now() });
  let rendering = 0;
  const pages = Array.from({ length: 4 }, (_, index) =>
    share(async () => {
      rendering += 1;
      expect(rendering).toBe(1);
      for (let waited = 0; waited < 3; waited += 1) await nextTurn();
      rendering -= 1;
      if (index === 1) throw new Error('broken');
      return { contentType: 'text/plain', body: `page ${index}` };
    }),
  );
  const server = createServer((request, response) => {
    pages[Number(request.url?.slice(1))]?.(response).catch(() => response.writeHead(500).end());
  });
  listening = await listen(server);
  const { port } = listening;
  const read = async (index: number): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}/${index}`)).text();
  expect(await Promise.all([0, 1, 2, 3].map(read))).toEqual(['page 0', '', 'page 2', 'page 3']);
});

it('leaves a turn of the event loop between two pages, also after a failed one', async () => {
  const share = createPageSharing({ interval: 0, monotonic: () => performance.now() });
  const order: string[] = [];
  const page = (name: string, failure?: Error) =>
    share(async () => {
      order.push(name);
      setImmediate(() => order.push('turn'));
      if (failure !== undefined) throw failure;
      return { contentType: 'text/plain', body: name };
    });
  const pages = [page('first'), page('second', new Error('broken')), page('third')];
  const read = pages.map((send) => send(new ServerResponse(new IncomingMessage(new Socket()))));
  await Promise.allSettled(read);
  expect(order.slice(0, 5)).toEqual(['first', 'turn', 'second', 'turn', 'third']);
});
