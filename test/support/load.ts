import { type HttpResponse, post } from './forwarding.ts';

/** One request to send. */
export interface LoadRequest {
  /** What the tally is kept by. */
  readonly name: string;
  readonly url: string;
  readonly form: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request that was sent, and what came of it. Times in milliseconds of `performance.now()`. */
export interface Hit {
  readonly name: string;
  readonly sentAt: number;
  readonly took: number;
  /** `200 answered`; `503 key-source-unavailable`; `no answer: ECONNRESET`. */
  readonly result: string;
}

/** Requests at a fixed rate, whether or not the earlier ones have been answered: waves of several at once. */
export class Load {
  readonly hits: Hit[] = [];
  readonly #answers: string[] = [];
  readonly #underWay = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  readonly #startedAt = performance.now();
  #endedAt = Number.NaN;

  /** @param every milliseconds between the waves; a late one is made up for. */
  constructor(wave: () => readonly LoadRequest[], every: number) {
    let due = this.#startedAt + every;
    this.#timer = setInterval(() => {
      for (; due <= performance.now(); due += every) for (const shot of wave()) this.#send(shot);
    }, every / 4);
  }

  /** Sends no more, and waits for the answers that are still to come. */
  async end(): Promise<this> {
    clearInterval(this.#timer);
    this.#endedAt = performance.now();
    await Promise.all(this.#underWay);
    return this;
  }

  /** From the beginning to the end of the sending. */
  get seconds(): number {
    return (this.#endedAt - this.#startedAt) / 1000;
  }

  /** Requests a second, on average. */
  get rate(): number {
    return this.hits.length / this.seconds;
  }

  /** Milliseconds that the slowest answer took. */
  get slowest(): number {
    return Math.max(...this.hits.map(({ took }) => took));
  }

  /** How many there were of each result, among those of this name that were sent and answered in this time. */
  results(name: RegExp, from = 0, to = Number.POSITIVE_INFINITY): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const hit of this.hits) {
      if (!name.test(hit.name) || hit.sentAt < from || hit.sentAt + hit.took > to) continue;
      counts[hit.result] = (counts[hit.result] ?? 0) + 1;
    }
    return counts;
  }

  /** Every answer: status, headers and body. */
  seen(): string {
    return this.#answers.join('\n');
  }

  #send(shot: LoadRequest): void {
    const exchange = this.#exchange(shot);
    this.#underWay.add(exchange);
    void exchange.finally(() => this.#underWay.delete(exchange));
  }

  async #exchange({ name, url, form, headers }: LoadRequest): Promise<void> {
    const sentAt = performance.now();
    const result = await post(url, form, headers).then(
      (answer) => {
        this.#answers.push(JSON.stringify(answer));
        return resultOf(answer);
      },
      (error: { code?: string }) => `no answer: ${error.code}`,
    );
    this.hits.push({ name, sentAt, took: performance.now() - sentAt, result });
  }
}

function resultOf({ status, headers, body, complete }: HttpResponse): string {
  if (!complete) return `${status} cut short`;
  const isOwn = headers['content-type']?.startsWith('application/problem+json') ?? false;
  return `${status} ${isOwn ? String(JSON.parse(body).reason) : String(headers['countersign-outcome'])}`;
}

/** Tells the numbers of a run on standard output, where a person reads them. */
export function tell(title: string, numbers: Readonly<Record<string, unknown>>): void {
  const width = Math.max(...Object.keys(numbers).map((name) => name.length));
  const lines = Object.entries(numbers).map(
    ([name, value]) =>
      `  ${name.padEnd(width)}  ${typeof value === 'number' ? value : JSON.stringify(value)}`,
  );
  process.stdout.write(`\n${title}\n${lines.join('\n')}\n`);
}
