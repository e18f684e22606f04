import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorTable, type ProxyError } from '../../errors.ts';
import type { RequestIdentity, ResponseResult } from '../../request-context.ts';
import { abortResponse } from './abort-response.ts';
import type { Turns } from './turns.ts';

/** Statuses of requests that were not meant for this proxy. The connection ends with the response. */
const closingStatuses: ReadonlySet<number> = new Set([400, 401, 405]);

/** The IDs of the request that an error response names. */
type ProblemIdentity = Pick<RequestIdentity, 'id' | 'callerRequestId'>;

/** Headers and body of an error response: `application/problem+json` (RFC 9457). */
export function problemDetails(
  error: ProxyError,
  { id: requestId, callerRequestId }: ProblemIdentity,
): { headers: Record<string, string>; body: string } {
  const { status, reason, detail, outcome } = error;
  const { title, proxyStatusError } = errorTable[reason];
  const type = `urn:countersign:error:${reason}`;
  const members = { type, title, status, detail, reason, outcome, requestId, callerRequestId };
  const body = `${JSON.stringify(members)}\n`;
  const headers = {
    'Content-Type': 'application/problem+json',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
    'Countersign-Outcome': outcome,
    'Proxy-Status': `countersign; error=${proxyStatusError}; details="${reason}"`,
    ...error.headers,
  };
  return { headers, body };
}

/**
 * Responds with an error. With an unread body, the connection ends. If a response has begun, it is aborted.
 *
 * @returns `undefined` if a response was already complete; it stays as it is
 */
export async function sendProblem(
  request: IncomingMessage,
  response: ServerResponse,
  identity: ProblemIdentity,
  error: ProxyError,
  turns: Turns,
): Promise<ResponseResult | undefined> {
  const { status, reason, outcome } = error;
  const { headers, body } = problemDetails(error, identity);
  if (!response.headersSent) {
    // By then Node has read a body that arrived together with the head, so the connection need not be closed.
    await new Promise<void>((resolve) => turns.wait(resolve));
  }
  // When a request is aborted, its handling continues and may have written a response meanwhile.
  if (response.writableEnded) return undefined;
  if (response.headersSent) {
    abortResponse(response);
    // The client has read the status of the response that was aborted, and no other.
    return { status: response.statusCode, reason, outcome };
  }
  const unread = !request.readableEnded && !request.complete;
  if (unread || closingStatuses.has(status)) response.setHeader('Connection', 'close');
  response.writeHead(status, headers);
  response.end(body);
  return { status, reason, outcome };
}
