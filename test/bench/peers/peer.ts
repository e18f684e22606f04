import type { Server } from 'node:net';
import type { Question } from '../child.ts';

/** Answers the questions of one kind that the benchmark asks this process. */
export function answer<Asked extends Question>(kind: Asked['ask'], work: (question: Asked) => unknown): void {
  process.on('message', (question: Asked) => {
    if (question.ask === kind) void Promise.resolve(work(question)).then((result) => process.send?.(result));
  });
  process.channel?.ref();
}

/** Listens on a free port of loopback and tells the benchmark the URL. */
export function answerUrl(server: Server): void {
  const url = new Promise<string>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(`http://127.0.0.1:${typeof address === 'object' ? address?.port : address}`);
    });
  });
  answer('url', () => url);
}
