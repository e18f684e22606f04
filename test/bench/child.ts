import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A process of the benchmark that answers questions, one at a time. */
export interface Child {
  ask<Answer>(question: Question): Promise<Answer>;
  /** CPU seconds, user and system, of all its threads since it began. */
  cpu(): Promise<number>;
  stop(): Promise<void>;
}

export interface Question {
  readonly ask: string;
}

export interface ChildOptions {
  readonly args?: readonly string[];
  /** File descriptor for its standard output; ours unless given. */
  readonly stdout?: number;
}

const usage = new URL('peers/usage.ts', import.meta.url).href;

/** Starts a module in a process of its own; peers/usage is loaded before it. */
export function startChild(module: URL, { args = [], stdout = 2 }: ChildOptions = {}): Child {
  const child = fork(fileURLToPath(module), args, {
    execArgv: ['--import', usage],
    stdio: ['ignore', stdout, 'inherit', 'ipc'],
  });
  const ask = async <Answer>(question: Question): Promise<Answer> => {
    const answer = nextMessage<Answer>(child);
    child.send(question);
    return answer;
  };
  return {
    ask,
    cpu: () => ask({ ask: 'cpu' }),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

async function nextMessage<Answer>(child: ChildProcess): Promise<Answer> {
  const over = new AbortController();
  const exit = once(child, 'exit', { signal: over.signal }).then(([code]) => {
    throw new Error(`${child.spawnargs.at(-1)} ended with ${code}`);
  });
  try {
    const [answer] = await Promise.race([once(child, 'message', { signal: over.signal }), exit]);
    return answer;
  } finally {
    exit.catch(() => {});
    over.abort();
  }
}
