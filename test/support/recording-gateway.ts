import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/** A request as it reached the gateway. */
export interface Recorded {
  readonly method: string;
  readonly target: string;
  /** Names and values in turn, as they were sent. */
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export interface RecordingGateway {
  readonly url: string;
  readonly requests: Recorded[];
  /** Gives every following answer; `OK` in plain text until it is set. */
  reply: (response: ServerResponse, request: Recorded) => void;
  close(): Promise<void>;
}

/** A gateway that believes everything, remembers it, and answers as the test says. */
export async function startRecordingGateway(): Promise<RecordingGateway> {
  const requests: Recorded[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.once('end', () => {
      const { method = '', url: target = '', rawHeaders, headers } = request;
      const recorded = { method, target, rawHeaders, headers, body: Buffer.concat(chunks) };
      requests.push(recorded);
      gateway.reply(response, recorded);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const gateway: RecordingGateway = {
    url: `http://127.0.0.1:${port}`,
    requests,
    reply: (response) => response.end('OK'),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return gateway;
}
