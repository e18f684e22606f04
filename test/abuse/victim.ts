import { Agent } from 'node:http';
import { increment } from '../support/command.ts';
import { post, transferForm } from '../support/forwarding.ts';
import { codeOf } from '../support/raw-http.ts';
import type { Target } from './ways.ts';

/** What the victim saw in one phase. Times in milliseconds. */
export interface Seen {
  readonly requests: number;
  readonly p50: number;
  readonly p99: number;
  /** Each failure as often as it occurred. */
  readonly failures: ReadonlyMap<string, number>;
}

/** Milliseconds between requests, and after which one has failed; the same for probes, as in the chart. */
const [every, patience, probing, probePatience] = [25, 5_000, 1_000, 3_000];
/** Opened at the start, and used in turns. */
const connections = 16;

interface VictimOptions {
  /** Milliseconds by which a response may be late on a busy machine. */
  readonly slack: number;
  /** Whether every eighth request opens a new connection. */
  readonly opens: boolean;
}

/** A service that pays at a steady rate, mostly over kept-alive connections, and the kubelet that probes the process. */
export class Victim {
  readonly #target: Target;
  readonly #options: VictimOptions;
  readonly #agent = newAgent();
  readonly #timers: NodeJS.Timeout[];
  readonly #inFlight = new Set<Promise<void>>();
  #times: number[] = [];
  #failures = new Map<string, number>();
  #sent = 0;

  constructor(target: Target, options: VictimOptions) {
    this.#target = target;
    this.#options = options;
    for (let count = 0; count < connections; count += 1) this.#track(this.#pay());
    this.#timers = [
      setInterval(() => this.#track(this.#pay()), every),
      setInterval(() => this.#track(this.#probe()), probing),
    ];
  }

  /** Pays once with each login, so that its keys are cached and its series exist. */
  async useLogins(): Promise<void> {
    while (this.#sent < this.#target.logins) await Promise.all(Array.from({ length: 10 }, () => this.#pay()));
  }

  /** Ends a phase, whose outstanding requests still count, and begins the next one. */
  async phase(): Promise<Seen> {
    const [times, failures] = [this.#times, this.#failures];
    const inFlight = [...this.#inFlight];
    [this.#times, this.#failures] = [[], new Map()];
    await Promise.all(inFlight);
    const sorted = times.toSorted((one, other) => one - other);
    const [p50 = Number.NaN, p99 = Number.NaN] = [0.5, 0.99].map(
      (part) => sorted[Math.floor(sorted.length * part)],
    );
    return { requests: times.length, p50, p99, failures };
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#inFlight);
    this.#agent.destroy();
  }

  #track(work: Promise<void>): void {
    this.#inFlight.add(work);
    void work.finally(() => this.#inFlight.delete(work));
  }

  /** A transfer of the next login, if there are several. */
  async #pay(): Promise<void> {
    const { url, logins } = this.#target;
    const [times, failures] = [this.#times, this.#failures];
    this.#sent += 1;
    const path = `/sandbox/gw/api/v4/transfer/${1000 + (this.#sent % logins)}`;
    const agent = this.#options.opens && this.#sent % 8 === 7 ? newAgent() : this.#agent;
    const startedAt = performance.now();
    const result = await post(
      `${url}${path}`,
      transferForm,
      { Authorization: 'Bearer victim' },
      { agent, signal: AbortSignal.timeout(patience + this.#options.slack) },
    ).then(
      ({ status, headers, complete }) =>
        complete ? `${status} ${String(headers['countersign-outcome'])}` : 'response broke off',
      (error: unknown) => `no response: ${codeOf(error)}`,
    );
    if (agent !== this.#agent) agent.destroy();
    times.push(performance.now() - startedAt);
    if (result !== '200 answered') increment(failures, result);
  }

  async #probe(): Promise<void> {
    const failures = this.#failures;
    const options = { method: 'GET', signal: AbortSignal.timeout(probePatience + this.#options.slack) };
    const result = await post(`${this.#target.adminUrl}/healthz`, '', {}, options).then(
      ({ status }) => `/healthz: ${status}`,
      (error: unknown) => `/healthz: ${codeOf(error)}`,
    );
    if (result !== '/healthz: 200') increment(failures, result);
  }
}

function newAgent(): Agent {
  return new Agent({ keepAlive: true, scheduling: 'fifo', maxSockets: connections });
}
