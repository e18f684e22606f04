import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { stringify } from 'yaml';
import { post } from '../support/forwarding.ts';
import { spawnProgram } from '../support/process.ts';
import { testKeys, writeKeys } from '../support/service.ts';
import { type ConfigOptions, configuration } from './configuration.ts';
import type { ProcessRecord } from './ledger.ts';
import { type RecordOf, readLog } from './log-reader.ts';

export interface InstanceOptions extends Omit<ConfigOptions, 'revision'> {
  readonly name: string;
  /** A folder for this instance only. */
  readonly folder: string;
  readonly log: ProcessRecord['log'];
  readonly recordOf: RecordOf;
  /** The record of each process. */
  readonly processes: ProcessRecord[];
}

/** Milliseconds in which a process has to be ready. */
const startLimit = 15_000;

/** One address of Countersign, served by one process after the other. */
export class Instance {
  readonly options: InstanceOptions;
  readonly #file: string;
  #child: ChildProcess | undefined;
  #process: ProcessRecord | undefined;
  #revision = 0;
  /** `up`: it has said that it is ready, and was not signaled to stop. */
  state: 'starting' | 'up' | 'stopping' | 'down' = 'down';
  /** Resolves when the current process has ended. */
  ended: Promise<void> = Promise.resolve();

  constructor(options: InstanceOptions) {
    this.options = options;
    this.#file = join(options.folder, 'config.yaml');
    mkdirSync(options.folder, { recursive: true });
    for (const site of options.urls.keys()) writeKeys(join(options.folder, 'keys'), site, 'acme', testKeys);
    this.rewrite();
  }

  /** The process that a connection made now leads to. */
  get process(): ProcessRecord | undefined {
    return this.#process;
  }

  get port(): number {
    return this.options.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get adminUrl(): string {
    return `http://127.0.0.1:${this.options.adminPort}`;
  }

  /** Writes another valid configuration, for SIGHUP to load. */
  rewrite(): void {
    this.#revision += 1;
    writeFileSync(this.#file, stringify(configuration({ ...this.options, revision: this.#revision })));
  }

  /** Resolves when the process is ready; one that ends before is recorded as ended by itself. */
  async start(): Promise<void> {
    const { name, log, folder, processes, recordOf } = this.options;
    const stdout = destinationOf(log, folder);
    const child = spawnProgram(['--config', this.#file], { folder, stdout });
    const record = newProcess(processes.length, name, log);
    processes.push(record);
    this.#child = child;
    this.#process = record;
    this.state = 'starting';
    child.stderr?.on('data', (chunk: Buffer) => {
      record.stderr += chunk.toString();
    });
    if (child.stdout !== null) readLog(child.stdout, record, recordOf);
    this.ended = this.#watch(child, record, stdout);
    const until = performance.now() + startLimit;
    while (record.exit === undefined && !(await this.isReady())) {
      if (performance.now() > until) return this.giveUp();
      await wait(30);
    }
    if (record.exit === undefined && this.state === 'starting') this.state = 'up';
  }

  async #watch(child: ChildProcess, record: ProcessRecord, stdout: 'pipe' | number): Promise<void> {
    const [code, signal] = await once(child, 'close');
    if (typeof stdout === 'number') closeSync(stdout);
    record.endedAt = performance.now();
    record.exit = { code, signal };
    this.state = 'down';
  }

  signal(name: 'SIGTERM' | 'SIGHUP' | 'SIGKILL'): void {
    if (this.#process === undefined || this.#process.exit !== undefined) return;
    this.#process.signals.push({ name, at: performance.now() });
    if (name !== 'SIGHUP') this.state = 'stopping';
    this.#child?.kill(name);
  }

  /**
   * Sends SIGTERM, and kills a process that has not ended well after it should have.
   *
   * @param bound milliseconds in which it has to end
   */
  async stop(bound: number): Promise<void> {
    if (this.state === 'up') this.signal('SIGTERM');
    const timer = setTimeout(() => this.giveUp(), bound + 5_000);
    await this.ended;
    clearTimeout(timer);
  }

  /** Kills a process that does not respond, and records that. */
  giveUp(): void {
    if (this.#process !== undefined) this.#process.hung = true;
    this.state = 'stopping';
    this.#child?.kill('SIGKILL');
  }

  /** Whether `/readyz` returns 200, as a load balancer checks it. */
  isReady(): Promise<boolean> {
    const options = { method: 'GET', signal: AbortSignal.timeout(1_000) };
    return post(`${this.adminUrl}/readyz`, '', {}, options).then(
      ({ status }) => status === 200,
      // Not listening yet, or no longer.
      () => false,
    );
  }
}

function newProcess(id: number, instance: string, log: ProcessRecord['log']): ProcessRecord {
  return {
    id,
    instance,
    log,
    startedAt: performance.now(),
    signals: [],
    endedAt: undefined,
    exit: undefined,
    stderr: '',
    untraced: new Set<string>(),
    withoutLine: 0,
    internalErrors: [],
    hung: false,
  };
}

/** Standard output of a process: read here; a device that is always full; or a pipe without a reader. */
function destinationOf(log: ProcessRecord['log'], folder: string): 'pipe' | number {
  if (log === 'read') return 'pipe';
  if (log === 'full') return openSync('/dev/full', 'w');
  const fifo = join(folder, 'log.fifo');
  execFileSync('sh', ['-c', `test -p "$0" || mkfifo "$0"`, fifo]);
  // For reading as well, so that opening does not wait for a reader.
  const pipe = openSync(fifo, 'r+');
  // Nearly all that a pipe holds, so that the first lines of the log fill it.
  writeSync(pipe, '\n'.repeat(60_000));
  return pipe;
}
