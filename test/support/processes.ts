import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { z } from 'zod';
import type { configSchema } from '../../src/config/schema.ts';
import { samples } from './exposition.ts';
import { root } from './sources.ts';

type ConfigInput = z.input<typeof configSchema>;

/** `countersign serve` in a process of its own, on free ports of loopback. */
export interface Countersign {
  readonly url: string;
  readonly adminUrl: string;
  /** All that it has printed and shown: standard output, standard error, every metrics page that was read. */
  readonly seen: () => string;
  /** Its log lines. */
  readonly log: () => readonly Record<string, unknown>[];
  /** Sum of all series of a metric whose labels are among these; `undefined` where there is no such series. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number | undefined>;
  /** Status of `/readyz`. */
  readiness(): Promise<number>;
  /** By SIGHUP: reads its configuration and the files that it names again. */
  reload(): void;
  /** By SIGTERM, once; gives the exit code. */
  stop(): Promise<number | null>;
}

/** Starts one with this configuration and an anonymous caller who may do everything. */
export async function startCountersign(
  config: Pick<ConfigInput, 'environments' | 'keys'>,
): Promise<Countersign> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-process-'));
  const file = join(folder, 'countersign.yaml');
  writeFileSync(file, JSON.stringify({ ...onLoopback, ...config }));
  const child = spawn(process.execPath, ['src/main.ts', 'serve', '--config', file], {
    cwd: root,
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'close');
  const printed = { out: '', err: '' };
  child.stdout.on('data', (chunk) => (printed.out += String(chunk)));
  child.stderr.on('data', (chunk) => (printed.err += String(chunk)));
  const { proxy, admin } = await started(child, printed);
  const pages: string[] = [];
  return {
    url: proxy,
    adminUrl: admin,
    seen: () => [printed.out, printed.err, ...pages].join('\n'),
    log: () => linesOf(printed.out),
    async metric(name, labels = {}) {
      const page = await (await fetch(`${admin}/metrics`)).text();
      pages.push(page);
      return sumOf(page, name, labels);
    },
    readiness: async () => (await fetch(`${admin}/readyz`)).status,
    reload: () => void child.kill('SIGHUP'),
    async stop() {
      child.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
      return child.exitCode;
    },
  };
}

const onLoopback: Pick<ConfigInput, 'proxy' | 'admin' | 'callers'> = {
  proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown: '2s' } },
  admin: { port: 0 },
  callers: [
    {
      name: 'load',
      credentials: [{ anonymous: true }],
      allow: [{ environments: ['*'], operations: ['*'], logins: ['*'] }],
    },
  ],
};

/** Its addresses, as the line `started` tells them. */
async function started(
  child: ChildProcess,
  printed: { readonly out: string; readonly err: string },
): Promise<{ proxy: string; admin: string }> {
  for (;;) {
    const line = linesOf(printed.out).find(({ msg }) => msg === 'started');
    if (line !== undefined) return { proxy: String(line['proxy']), admin: String(line['admin']) };
    if (child.exitCode !== null) throw new Error(`countersign did not start: ${printed.out}${printed.err}`);
    await Promise.race([once(child, 'close'), once(child.stdout ?? child, 'data')]);
  }
}

/** The last line may still be coming. */
function linesOf(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

function sumOf(page: string, name: string, labels: Readonly<Record<string, string>>): number | undefined {
  const parts = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const values = [...samples(page)]
    .filter(([series]) => series.split('{')[0] === `countersign_${name}`)
    .filter(([series]) => parts.every((part) => series.includes(part)))
    .map(([, value]) => value);
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}
