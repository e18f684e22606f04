import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { compileCache } from './compile-cache.ts';
import { until } from './forwarding.ts';
import { type TestKeys, testControlKey, testPrivateKey, writeKeys } from './service.ts';

/** `countersign serve` as a process of its own. */
export interface ServeProcess {
  readonly child: ChildProcess;
  /** Folder with `config.yaml` and `keys`. */
  readonly folder: string;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Log lines with this message. */
  readonly lines: (message: string) => Record<string, unknown>[];
  /** Where proxy and operations port listen, once they do. */
  readonly started: () => Promise<{ url: string; adminUrl: string }>;
  readonly signal: (name: NodeJS.Signals) => void;
  readonly rewrite: (config: unknown) => void;
  /** Resolves to the exit code when the process has ended. */
  readonly ended: Promise<number | null>;
  /** Ends what may still run, and deletes the folder. */
  readonly clear: () => Promise<void>;
}

export interface ServeOptions {
  /** Written as YAML; a text as it is. Without it the embedded default is served. */
  readonly config?: unknown;
  readonly env?: Readonly<Record<string, string>>;
  readonly keys?: TestKeys;
  /** Options of Node before the program. */
  readonly nodeOptions?: readonly string[];
  /** A file descriptor for the log; `stdout` and `lines` show nothing then. */
  readonly stdout?: number | 'pipe';
}

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export function spawnServe({
  config,
  env,
  keys,
  nodeOptions = [],
  stdout = 'pipe',
}: ServeOptions): ServeProcess {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-serve-'));
  const file = join(folder, 'config.yaml');
  const rewrite = (content: unknown): void =>
    writeFileSync(file, typeof content === 'string' ? content : stringify(content));
  writeKeys(
    join(folder, 'keys'),
    'sandbox',
    'acme',
    keys ?? { controlKey: testControlKey, privateKey: testPrivateKey },
  );
  if (config !== undefined) rewrite(config);
  const args = [...nodeOptions, main, 'serve', ...(config === undefined ? [] : ['--config', file])];
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: folder, ...compileCache, ...env },
    stdio: ['ignore', stdout, 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', resolve);
  });
  const lines = (message: string): Record<string, unknown>[] =>
    out
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line): Record<string, unknown> => JSON.parse(line))
      .filter(({ msg }) => msg === message);
  return {
    child,
    folder,
    stdout: () => out,
    stderr: () => err,
    lines,
    started: async () => {
      await until(() => lines('started').length > 0 || child.exitCode !== null);
      const [line] = lines('started');
      if (line === undefined) throw new Error(`not started: ${err}`);
      return { url: String(line['proxy']), adminUrl: String(line['admin']) };
    },
    signal: (name) => void child.kill(name),
    rewrite,
    ended,
    clear: async () => {
      child.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A configuration with free ports, keys in the folder `keys` beside it and an anonymous caller. */
export function configFor(gateway: string, overrides: object = {}, sandbox: object = {}): object {
  return {
    proxy: { port: 0, timeouts: { shutdownDelay: '0s' } },
    admin: { port: 0 },
    environments: { sandbox: { baseUrl: gateway, product: 'gw', endpoints: { '1234': 'acme' }, ...sandbox } },
    keys: { source: 'directory', directory: './keys' },
    callers: [
      {
        name: 'local',
        credentials: [{ anonymous: true }],
        allow: [{ environments: ['*'], operations: ['*'], logins: ['*'] }],
      },
    ],
    ...overrides,
  };
}
