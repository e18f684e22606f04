import { Agent, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { codeOf } from '../support/raw-http.ts';
import type { RawResponse } from '../support/response-reader.ts';
import { received, requestParts } from './caller-request.ts';
import type { RequestRecord } from './ledger.ts';
import type { LoadBalancer } from './load-balancer.ts';

/** A typical service: Node's HTTP client with keep-alive connections and no retries. */
export class KeptAliveCaller {
  readonly #seed: number;
  readonly #balancer: LoadBalancer;
  /** The process at the other end of each connection. */
  readonly #processes = new WeakMap<Socket, number>();
  #agent: Agent;

  constructor(seed: number, balancer: LoadBalancer) {
    this.#seed = seed;
    this.#balancer = balancer;
    this.#agent = this.#newAgent();
  }

  /** Sends the request and records the result. */
  async send(record: RequestRecord): Promise<void> {
    record.sent = 'whole';
    record.sentAt = performance.now();
    try {
      record.response = received(await readWhole(await this.#response(record)));
    } catch (error) {
      record.ending = codeOf(error);
      if (record.ending === 'ECONNREFUSED') record.sent = 'nothing';
    }
    record.endedAt = performance.now();
  }

  /** Closes its connections, so that the next one may lead to another instance. */
  close(): void {
    this.#agent.destroy();
    this.#agent = this.#newAgent();
  }

  #response(record: RequestRecord): Promise<IncomingMessage> {
    const { path, headers, form } = requestParts(record.plan, this.#seed);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    request({ path, headers, method: 'POST', agent: this.#agent })
      .once('socket', (socket) => {
        record.process = this.#processes.get(socket);
      })
      .once('response', resolve)
      .once('error', reject)
      .end(form);
    return promise;
  }

  #newAgent(): Agent {
    const agent = new Agent({ keepAlive: true });
    // The balancer chooses when a connection is opened; open ones stay with their instance.
    agent.createConnection = (): Duplex => {
      const instance = this.#balancer.next();
      const socket = connect(instance.port, '127.0.0.1');
      if (instance.process !== undefined) this.#processes.set(socket, instance.process.id);
      return socket;
    };
    return agent;
  }
}

async function readWhole(response: IncomingMessage): Promise<RawResponse> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response) chunks.push(chunk);
  } catch {
    // A truncated response has `complete: false`.
  }
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [name, String(value)]),
  );
  const { statusCode: status = 0, complete } = response;
  return { status, headers, body: Buffer.concat(chunks), complete };
}
