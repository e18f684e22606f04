import { type CountersignProcess, listening, spawnServe } from '../support/process.ts';
import { newProcess, type ProcessRecord, type RequestRecord } from './ledger.ts';

interface InstanceOptions {
  readonly name: string;
  /** @param revision changes from one reload to the next */
  readonly configOf: (revision: number) => object;
  readonly processes: ProcessRecord[];
  readonly recordOf: (orderId: string) => RequestRecord | undefined;
  /** Milliseconds in which a process has to end after SIGTERM. */
  readonly stopBound: number;
}

/** One of several Countersigns, as one process after the other. */
export class Instance {
  readonly #options: InstanceOptions;
  #revision = 0;
  #served: CountersignProcess | undefined;
  #process = newProcess('');
  /** `up`: it listens, and was not told to stop. */
  state: 'down' | 'starting' | 'up' | 'stopping' = 'down';
  /** Resolves when the current process has ended. */
  #ended: Promise<void> = Promise.resolve();

  constructor(options: InstanceOptions) {
    this.#options = options;
  }

  get process(): ProcessRecord {
    return this.#process;
  }

  get url(): string {
    return this.#served?.url ?? '';
  }

  /** Resolves when the process listens. */
  async start(): Promise<void> {
    const { name, configOf, processes } = this.#options;
    this.state = 'starting';
    const served = await listening(spawnServe({ file: configOf(this.#revision) }));
    this.#served = served;
    this.#process = newProcess(`${name}${processes.length}`);
    processes.push(this.#process);
    this.state = 'up';
    this.#ended = this.#watch(served, this.#process);
  }

  async #watch(served: CountersignProcess, record: ProcessRecord): Promise<void> {
    await served.ended;
    record.endedAt = performance.now();
    record.exit = String(served.child.signalCode ?? served.child.exitCode);
    record.stderr = served.stderr();
    readLog(served, record, this.#options.recordOf);
    this.state = 'down';
    await served.close();
  }

  signal(name: 'SIGTERM' | 'SIGHUP' | 'SIGKILL'): void {
    if (this.state !== 'up') return;
    this.#process.signals.push({ name, at: performance.now() });
    if (name === 'SIGHUP') {
      this.#revision += 1;
      this.#served?.rewrite(this.#options.configOf(this.#revision));
    } else this.state = 'stopping';
    this.#served?.signal(name);
  }

  /** Sends SIGTERM, and kills a process that has not ended well after it should have. */
  async stop(): Promise<void> {
    this.signal('SIGTERM');
    const timer = setTimeout(() => this.kill(), this.#options.stopBound + 5_000);
    await this.#ended;
    clearTimeout(timer);
  }

  /** Not part of the run. */
  kill(): void {
    this.#served?.signal('SIGKILL');
  }
}

function readLog(
  { logLines }: CountersignProcess,
  process: ProcessRecord,
  recordOf: InstanceOptions['recordOf'],
): void {
  for (const line of logLines()) {
    if ('stack' in line || 'origin' in line) process.internalErrors.push(JSON.stringify(line));
    if (line.msg === 'rejected requests without a log line') process.withoutLine += Number(line['count']);
    const { requestId, outcome, callerRequestId: orderId } = line;
    if (typeof requestId !== 'string' || typeof outcome !== 'string') continue;
    if (typeof orderId === 'string') recordOf(orderId)?.lines.push({ requestId, outcome });
    else process.unknown.add(requestId);
  }
}
