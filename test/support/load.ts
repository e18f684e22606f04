import { type HttpResponse, post } from './forwarding.ts';

/** One request to send. */
export interface LoadRequest {
  /** Results are counted by this name. */
  readonly name: string;
  readonly url: string;
  readonly form: string;
}

/** A request that was sent, and what came of it. Times in milliseconds of `performance.now()`. */
export interface Hit {
  readonly name: string;
  readonly sentAt: number;
  readonly took: number;
  /** `200 answered`; `503 key-source-unavailable`; `no response: ECONNRESET`. */
  readonly result: string;
}

/** Sends waves of requests at a fixed rate, without waiting for responses. */
export class Load {
  readonly hits: Hit[] = [];
  readonly #inFlight = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  readonly #startedAt = performance.now();
  #endedAt = Number.NaN;

  /** @param every milliseconds between the waves; late ones are sent at once */
  constructor(wave: () => readonly LoadRequest[], every: number) {
    let due = this.#startedAt + every;
    this.#timer = setInterval(() => {
      for (; due <= performance.now(); due += every) for (const request of wave()) this.#send(request);
    }, every / 4);
  }

  /** Stops sending, and waits for the outstanding responses. */
  async end(): Promise<this> {
    clearInterval(this.#timer);
    this.#endedAt = performance.now();
    await Promise.all(this.#inFlight);
    return this;
  }

  /** Average number of requests per second, from the first one to the end of sending. */
  get rate(): number {
    return (this.hits.length / (this.#endedAt - this.#startedAt)) * 1000;
  }

  #send(request: LoadRequest): void {
    const done = this.#post(request);
    this.#inFlight.add(done);
    void done.finally(() => this.#inFlight.delete(done));
  }

  async #post({ name, url, form }: LoadRequest): Promise<void> {
    const sentAt = performance.now();
    const failed = (error: { code?: string }): string => `no response: ${error.code}`;
    const result = await post(url, form).then(resultOf, failed);
    this.hits.push({ name, sentAt, took: performance.now() - sentAt, result });
  }
}

function resultOf({ status, headers, body, complete }: HttpResponse): string {
  if (!complete) return `${status} cut short`;
  const isOwn = headers['content-type']?.startsWith('application/problem+json') ?? false;
  return `${status} ${isOwn ? String(JSON.parse(body).reason) : String(headers['countersign-outcome'])}`;
}

/** Prints the numbers of a run on jest's console. */
export function printNumbers(title: string, numbers: Readonly<Record<string, unknown>>): void {
  const width = Math.max(...Object.keys(numbers).map((name) => name.length));
  const lines = Object.entries(numbers).map(
    ([name, value]) =>
      `  ${name.padEnd(width)}  ${typeof value === 'number' ? value : JSON.stringify(value)}`,
  );
  console.info([title, ...lines].join('\n'));
}
