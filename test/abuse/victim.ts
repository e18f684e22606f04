import { Agent } from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import { post, transferForm } from '../support/forwarding.ts';
import { codeOf } from '../support/raw-http.ts';
import type { Target } from './target.ts';

/** What the victim saw in one phase. Times in milliseconds. */
export interface Seen {
  readonly requests: number;
  readonly p50: number;
  readonly p99: number;
  /** Without the time that other programs of the machine took the core away. */
  readonly ownP99: number;
  /** Each failure as often as it occurred. */
  readonly failures: Readonly<Record<string, number>>;
}

const pathOf = (login: number): string => `/sandbox/gw/api/v4/transfer/${1000 + login}`;
const headersOf = ({ anonymous }: Target): Record<string, string> =>
  anonymous ? {} : { Authorization: 'Bearer victim' };

/** Pays once with each login, so that its keys are cached and its series exist. Without TLS. */
export async function useLogins(target: Target): Promise<void> {
  for (let login = 0; login < target.logins; login += 10) {
    const some = Array.from({ length: 10 }, (_, index) => pathOf((login + index) % target.logins));
    await Promise.all(some.map((path) => post(`${target.url}${path}`, transferForm, headersOf(target))));
  }
}

/** Milliseconds between requests, and after which one has failed. */
const [every, patience] = [25, 5_000];
/** As in the chart: milliseconds between probes, and what one may take. */
const [probing, probePatience] = [1_000, 3_000];

interface Surroundings {
  /** Starts to measure for how long others take the core away. */
  readonly stolen: () => () => number;
  /** Milliseconds by which a response may be late on a busy machine. */
  readonly slack: number;
  /** Whether the victim opens new connections during the attack. */
  readonly opens: boolean;
}

/** Opened at the start, and used in turns. */
const connections = 16;

/** A service that pays at a steady rate, mostly over kept-alive connections, and the kubelet that probes the process. */
export class Victim {
  readonly #target: Target;
  readonly #agent: Agent;
  readonly #timers: NodeJS.Timeout[];
  readonly #inFlight = new Set<Promise<void>>();
  readonly #surroundings: Surroundings;
  #times: { readonly took: number; readonly own: number }[] = [];
  #failures: Record<string, number> = {};
  #sent = 0;

  constructor(target: Target, surroundings: Surroundings) {
    this.#target = target;
    this.#surroundings = surroundings;
    const { ca } = target;
    const options = { keepAlive: true, scheduling: 'fifo', maxSockets: connections } as const;
    this.#agent = ca === undefined ? new Agent(options) : new TlsAgent({ ...options, ca });
    for (let count = 0; count < connections; count += 1) this.#track(this.#pay());
    this.#timers = [
      setInterval(() => this.#track(this.#pay()), every),
      setInterval(() => this.#track(this.#probe()), probing),
    ];
  }

  /** Ends a phase, whose outstanding requests still count, and begins the next one. */
  async phase(): Promise<Seen> {
    const [times, failures] = [this.#times, this.#failures];
    const inFlight = [...this.#inFlight];
    [this.#times, this.#failures] = [[], {}];
    await Promise.all(inFlight);
    const quantile = (part: number, of: 'took' | 'own'): number => {
      const sorted = times.map((time) => time[of]).toSorted((one, other) => one - other);
      return sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
    };
    const [p50, p99, ownP99] = [quantile(0.5, 'took'), quantile(0.99, 'took'), quantile(0.99, 'own')];
    return { requests: times.length, p50, p99, ownP99, failures };
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

  /** A transfer of the next login, if there are several; every eighth over a new connection. */
  async #pay(): Promise<void> {
    const { url, ca, logins } = this.#target;
    const { stolen: beginning, slack, opens } = this.#surroundings;
    const [times, failures] = [this.#times, this.#failures];
    const count = this.#sent++;
    const path = pathOf(count % logins);
    const headers = headersOf(this.#target);
    const own = { agent: this.#agent, signal: AbortSignal.timeout(patience + slack) };
    const fresh = ca === undefined ? new Agent() : new TlsAgent({ ca });
    const options = opens && count % 8 === 7 ? { ...own, agent: fresh } : own;
    const startedAt = performance.now();
    const stolen = beginning();
    const result = await post(`${url}${path}`, transferForm, headers, options).then(
      ({ status, headers: received, complete }) =>
        complete ? `${status} ${String(received['countersign-outcome'])}` : 'response broke off',
      (error: unknown) => `no response: ${codeOf(error)}`,
    );
    const took = performance.now() - startedAt;
    times.push({ took, own: took - stolen() });
    if (result !== '200 answered') failures[result] = (failures[result] ?? 0) + 1;
  }

  async #probe(): Promise<void> {
    const failures = this.#failures;
    const options = { method: 'GET', signal: AbortSignal.timeout(probePatience + this.#surroundings.slack) };
    const result = await post(`${this.#target.adminUrl}/healthz`, '', {}, options).then(
      ({ status }) => `/healthz: ${status}`,
      (error: unknown) => `/healthz: ${codeOf(error)}`,
    );
    if (result !== '/healthz: 200') failures[result] = (failures[result] ?? 0) + 1;
  }
}
