import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

/** What a process needed in one phase. */
export interface Usage {
  /** Longest delay of the event loop in milliseconds, and without the time that it waited for a core. */
  readonly loop: number;
  readonly ownLoop: number;
  /** Largest resident set in bytes. */
  readonly memory: number;
  /** Milliseconds of CPU time of the main thread for each second. */
  readonly cpu: number;
}

/** Measures a process from outside, and reads what the loop monitor inside it writes. Linux only. */
export class ProcessWatch {
  readonly #pid: number;
  readonly #loopFile: string;
  readonly #timer: NodeJS.Timeout;
  #memory = 0;
  #peak = 0;
  #since = Date.now();
  #cpu = 0;

  constructor(pid: number, loopFile: string) {
    this.#pid = pid;
    this.#loopFile = loopFile;
    this.#timer = setInterval(() => this.#sample(), 50);
    this.#begin();
  }

  /** Milliseconds of CPU time that the main thread, which has the event loop, has used. */
  get cpuTime(): number {
    return Number(this.#read('schedstat').split(' ')[0]) / 1e6;
  }

  /**
   * Returns how many milliseconds from now on other programs of the machine took the core away: at least one of this
   * process and the measured one could run, but neither they nor their threads did. On an idle machine that is nothing.
   */
  stolen(): () => number {
    const [at, before] = [performance.now(), this.#coreTimes()];
    return () => {
      const now = this.#coreTimes();
      const idle = performance.now() - at - (now.used - before.used);
      const waited = Math.max(now.own - before.own, now.measured - before.measured);
      return Math.max(0, Math.min(waited, idle));
    };
  }

  #coreTimes(): { own: number; measured: number; used: number } {
    const waited = (schedstat: string): number => Number(schedstat.split(' ')[1] ?? 0) / 1e6;
    // After the name in parentheses: the 12th and 13th are user and system time in hundredths of a second (proc(5)).
    const [user = 0, system = 0] = (this.#read('stat').split(') ')[1] ?? '')
      .split(' ')
      .slice(11, 13)
      .map(Number);
    const { user: ownUser, system: ownSystem } = process.cpuUsage();
    return {
      own: waited(readFileSync('/proc/self/schedstat', 'utf8')),
      measured: waited(this.#read('schedstat')),
      used: (user + system) * 10 + (ownUser + ownSystem) / 1_000,
    };
  }

  /** Ends a phase, and begins the next one. */
  async phase(): Promise<Usage> {
    const until = Date.now();
    const seconds = (until - this.#since) / 1000;
    const cpu = (this.cpuTime - this.#cpu) / seconds;
    // What is written next is about the time before.
    await wait(250);
    this.#sample();
    const { peak } = this.#memoryNow();
    const lines = readFileSync(this.#loopFile, 'utf8').trimEnd().split('\n');
    const samples = lines.map((line) => line.split(' ').map(Number));
    const inPhase = samples.filter(([at = 0]) => at >= this.#since + 100);
    const longest = (index: number): number => Math.max(0, ...inPhase.map((sample) => sample[index] ?? 0));
    const memory = peak > this.#peak ? peak : this.#memory;
    this.#begin();
    return { loop: longest(1), ownLoop: longest(2), memory, cpu };
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #begin(): void {
    this.#since = Date.now();
    this.#cpu = this.cpuTime;
    const { resident, peak } = this.#memoryNow();
    [this.#memory, this.#peak] = [resident, peak];
  }

  #sample(): void {
    this.#memory = Math.max(this.#memory, this.#memoryNow().resident);
  }

  #memoryNow(): { resident: number; peak: number } {
    const status = this.#read('status');
    const bytes = (name: string): number =>
      Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) * 1024;
    return { resident: bytes('VmRSS'), peak: bytes('VmHWM') };
  }

  /** Nothing once the process has ended. */
  #read(name: string): string {
    try {
      return readFileSync(`/proc/${this.#pid}/${name}`, 'utf8');
    } catch {
      return '';
    }
  }
}
