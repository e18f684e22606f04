import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { compileCache } from './compile-cache.ts';
import { configFor } from './config.ts';
import { type Countersign, type LogLine, linesOf, observe } from './countersign.ts';
import { Folder } from './folder.ts';
import { noGateway, type StartOptions, testKeys, writeKeys } from './service.ts';
import { until } from './until.ts';

export interface SpawnOptions {
  /** Written as YAML; a text as it is. Without it the embedded default is served. */
  readonly file?: unknown;
  /** After the file. */
  readonly args?: readonly string[];
  readonly keys?: StartOptions['keys'];
  readonly env?: Readonly<Record<string, string>>;
  /** Options of Node before the program. */
  readonly nodeOptions?: readonly string[];
  /** File to run; the sources unless given. */
  readonly program?: string;
  /** A file descriptor for the log; `stdout` and `logLines` show nothing then. */
  readonly stdout?: number | 'pipe';
}

export type ProcessOptions = StartOptions & Omit<SpawnOptions, 'file'>;

/** `countersign serve` as a separate process, which may or may not come to listen. */
export interface ServeProcess extends Pick<Countersign, 'logLines'> {
  readonly child: ChildProcess;
  /** With `config.yaml` and `keys`. */
  readonly folder: string;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Resolves to whether it listens, when it does or has ended. */
  readonly started: () => Promise<boolean>;
  readonly signal: (name: NodeJS.Signals) => void;
  /** Replaces the configuration file. */
  readonly rewrite: (file: unknown) => void;
  /** Resolves to the exit code when the process has ended. */
  readonly ended: Promise<number | null>;
  /** Stops it by SIGTERM. @returns the exit code */
  readonly stop: () => Promise<number | null>;
  /** Kills what may still run, and deletes the folder. */
  readonly close: () => Promise<void>;
}

/** One that listens. */
export interface CountersignProcess extends Countersign, ServeProcess {}

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** `countersign serve` with no other environment than this. */
export function spawnServe(options: SpawnOptions): ServeProcess {
  const { file, args = [], keys = { acme: testKeys }, env } = options;
  const { nodeOptions = [], program = main, stdout = 'pipe' } = options;
  const folder = new Folder();
  const rewrite = (content: unknown): string =>
    folder.file('config.yaml', typeof content === 'string' ? content : stringify(content));
  for (const [login, both] of Object.entries(keys)) {
    writeKeys(join(folder.path, 'keys'), 'sandbox', login, both);
  }
  const config = file === undefined ? [] : ['--config', rewrite(file)];
  const child = spawn(process.execPath, [...nodeOptions, program, 'serve', ...config, ...args], {
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: folder.path, ...compileCache, ...env },
    stdio: ['ignore', stdout, 'pipe'],
  });
  const printed = { out: '', err: '' };
  child.stdout?.on('data', (chunk: Buffer) => (printed.out += String(chunk)));
  child.stderr?.on('data', (chunk: Buffer) => (printed.err += String(chunk)));
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', resolve);
  });
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    child.kill(signal);
    return ended;
  };
  const logLines = (message?: string): LogLine[] => linesOf(printed.out, message);
  const isListening = (): boolean => logLines('started').length > 0;
  return {
    child,
    folder: folder.path,
    stdout: () => printed.out,
    stderr: () => printed.err,
    logLines,
    async started() {
      await until(() => isListening() || child.exitCode !== null, 'the process listens', 30);
      return isListening();
    },
    signal: (name) => void child.kill(name),
    rewrite,
    ended,
    stop: () => end('SIGTERM'),
    close: () => end('SIGKILL').then(() => folder.remove()),
  };
}

/** As {@link startProxy}, in a separate process. Resolves when it listens. @throws Error with what it printed, if it ends */
export async function startProcess(options: ProcessOptions = {}): Promise<CountersignProcess> {
  const { gateway = noGateway, config, sandbox, ...more } = options;
  return listening(spawnServe({ file: configFor(gateway, config, sandbox), ...more }));
}

/** Adds to a process what can be observed once it listens. */
export async function listening(served: ServeProcess): Promise<CountersignProcess> {
  const { logLines, started, stdout, stderr, close } = served;
  await started();
  const [line] = logLines('started');
  if (line === undefined) {
    await close();
    throw new Error(`not started: ${stdout()}${stderr()}`);
  }
  const observed = observe({ url: String(line['proxy']), adminUrl: String(line['admin']) }, stdout);
  return { ...observed, ...served, seen: () => `${observed.seen()}\n${stderr()}` };
}
