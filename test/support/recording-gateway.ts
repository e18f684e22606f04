import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen } from './listening.ts';

/** A request that the gateway received. */
export interface Recorded {
  readonly method: string;
  readonly target: string;
  /** Alternating names and values, as sent. */
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export interface RecordingGateway {
  readonly url: string;
  readonly requests: Recorded[];
  /** Sends the responses to following requests. Default: `OK` in plain text. */
  respond: (response: ServerResponse, request: Recorded) => void;
  /** Holds back the responses to following requests. @returns sends them, and from then on each at once */
  hold(body?: string): () => void;
  /** Forgets its requests, and responds as it does by default. */
  reset(): void;
  close(): Promise<void>;
}

/** A gateway that accepts every request, records it, and responds as the test wants. */
export async function startRecordingGateway(): Promise<RecordingGateway> {
  const requests: Recorded[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.once('end', () => {
      const { method = '', url: target = '', rawHeaders, headers } = request;
      const recorded = { method, target, rawHeaders, headers, body: Buffer.concat(chunks) };
      requests.push(recorded);
      gateway.respond(response, recorded);
    });
  });
  const { port, close } = await listen(server);
  const respond = (response: ServerResponse): void => void response.end('OK');
  const gateway: RecordingGateway = {
    url: `http://127.0.0.1:${port}`,
    requests,
    respond,
    hold(body = 'OK') {
      const released = Promise.withResolvers<void>();
      gateway.respond = (response) => void released.promise.then(() => response.end(body));
      return released.resolve;
    },
    reset() {
      requests.length = 0;
      gateway.respond = respond;
    },
    close,
  };
  return gateway;
}
