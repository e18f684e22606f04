import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errorTable, type ProxyError } from '../../errors.ts';
import type { ResponseResult } from '../../request-context.ts';
import { abortResponse } from './abort-response.ts';
import { linger } from './connection.ts';

/** Statuses of requests that were no request for this proxy: the connection ends with the response. */
const closing: ReadonlySet<number> = new Set([400, 401, 405]);

/** The head and body of an answer of Countersign's own: `application/problem+json` (RFC 9457). */
export function problemDetails(
  refusal: ProxyError,
  requestId: string,
): { headers: Record<string, string>; body: string } {
  const { status, reason, detail, outcome } = refusal;
  const { title, proxyStatusError: proxyError } = errorTable[reason];
  const type = `urn:countersign:error:${reason}`;
  const body = JSON.stringify({ type, title, status, detail, reason, outcome, requestId });
  const headers = {
    'Content-Type': 'application/problem+json',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
    'Countersign-Outcome': outcome,
    'Proxy-Status': `countersign; error=${proxyError}; details="${reason}"`,
    ...refusal.headers,
  };
  return { headers, body };
}

/**
 * Answers in Countersign's own name. A body that was not read is not left on the connection: it is read for a
 * moment and thrown away, and the connection is closed. A response that has begun is aborted; one that is
 * complete stays.
 *
 * @returns `undefined` where the response was complete already
 */
export async function sendProblem(
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
  error: ProxyError,
): Promise<ResponseResult | undefined> {
  const { status, reason, outcome } = error;
  const { headers, body } = problemDetails(error, requestId);
  if (!response.headersSent) {
    // By then Node has read what came in one piece with the head: no need to close for that.
    await nextTurn();
  }
  // An abort does not stop the handling of its request, which may have written a response meanwhile.
  if (response.writableEnded) return undefined;
  const result = { status, reason, outcome };
  if (response.headersSent) {
    abortResponse(response);
    return result;
  }
  const unread = !request.readableEnded && !request.complete;
  if (unread || closing.has(status)) response.setHeader('Connection', 'close');
  response.writeHead(status, headers);
  response.write(body);
  if (unread && !request.socket.readableEnded) await drainBody(request);
  response.end();
  return result;
}

function drainBody(request: IncomingMessage): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, linger.milliseconds);
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > linger.bytes) resolve();
  });
  request.once('close', resolve).once('end', resolve).resume();
  return promise.finally(() => clearTimeout(timer));
}
