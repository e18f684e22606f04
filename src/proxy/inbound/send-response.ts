import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import type { Request, Response } from 'express';
import { errorTable, type ProxyError } from '../../errors.ts';
import { isCoded, isPaymentServerError, responseAsJson, resultOf } from '../../gateway/response.ts';
import type { Destination } from '../../gateway/router.ts';
import type { RequestRecord, ResponseResult } from '../../request-context.ts';
import { AcceptedTypes } from '../../util/accept.ts';
import type { CallbackVerdict } from '../callback-verifier.ts';
import { UpstreamError } from '../outbound/upstream-error.ts';
import type { GatewayResponse } from '../outbound/upstream-request.ts';
import { unknownPaymentAdvice } from '../outcome.ts';
import { endResponse, hasEnded } from './connection.ts';

/** Statuses of requests that were not meant for this proxy. The connection ends with the response. */
const closingStatuses: ReadonlySet<number> = new Set([400, 401, 405, 431]);

/** The IDs of the request that an error response names. */
type ProblemIdentity = Pick<RequestRecord, 'id' | 'callerRequestId'>;

/**
 * Gateway headers that are forwarded in addition to the configured ones. `Content-Encoding` is one of them because the
 * body is forwarded unchanged.
 */
const forwardedHeaderNames = ['content-type', 'content-encoding', 'date', 'retry-after', 'cache-control'];

/** Larger bodies are not worth a copy. */
const onePieceBytes = 16_384;

/**
 * Forwards the gateway's response: status and body unchanged, or a form-encoded body as JSON if the client accepts
 * that. If the body is truncated, the client's connection is closed.
 */
export async function sendResponse(
  request: Request,
  response: Response,
  { id: requestId, orderMismatch }: Pick<RequestRecord, 'id' | 'orderMismatch'>,
  gatewayResponse: GatewayResponse,
  { settings, operation }: Destination,
  securityHeaders: OutgoingHttpHeaders,
): Promise<ResponseResult> {
  const { status, headers, body, rest, form } = gatewayResponse;
  const read = isCoded(headers) ? ({ gatewayResult: 'coded' } as const) : form && resultOf(form);
  const result = { status, outcome: 'answered', ...read } as const;
  // In one object: Node copies and checks headers twice that are set one by one.
  const head = { ...securityHeaders };
  forwardHeaders(forwardedHeaderNames, headers, head);
  forwardHeaders(settings.responseHeaders, headers, head);
  head['X-Request-Id'] = requestId;
  head['Countersign-Outcome'] = 'answered';
  head['Proxy-Status'] = proxyStatus(status, operation.readOnly);
  if (orderMismatch !== undefined) head['Countersign-Order-Mismatch'] = orderMismatch;
  if (rest !== undefined) {
    const length = headers['content-length'];
    response.writeHead(status, length === undefined ? head : { ...head, 'Content-Length': length });
    const failure = await streamRest(response, body, rest);
    return { ...result, ...failure };
  }
  if (form !== undefined && prefersJson(request.headers.accept)) {
    head['content-type'] = 'application/json; charset=utf-8';
    sendBody(response, status, head, Buffer.from(`${responseAsJson(form)}\n`));
  } else {
    sendBody(response, status, head, body);
  }
  return result;
}

/** Sends what Countersign itself says about a callback. */
export function sendVerdict(
  response: Response,
  requestId: string,
  verdict: CallbackVerdict,
  securityHeaders: OutgoingHttpHeaders,
): ResponseResult {
  const head = {
    ...securityHeaders,
    'Content-Type': 'application/json',
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
    'Countersign-Outcome': 'not-sent',
    'Proxy-Status': 'countersign',
  };
  sendBody(response, 200, head, Buffer.from(`${JSON.stringify(verdict)}\n`));
  return { status: 200, outcome: 'not-sent', callback: verdict.result };
}

/** Whether a client prefers JSON to the form. One that only sends wildcards gets the form. */
export function prefersJson(accept: string | undefined): boolean {
  const accepted = new AcceptedTypes(accept);
  const [json, form] = ['application/json', 'text/html'] as const;
  const [weight, other] = [accepted.weightOf(json), accepted.weightOf(form)];
  return weight > other || (weight === other && weight > 0 && accepted.firstNamed(json, form) === json);
}

/** As text of the same bytes, Node writes a small body in one piece with the head: 10 of 250 µs less per request. */
function sendBody(response: Response, status: number, head: OutgoingHttpHeaders, body: Buffer): void {
  // RFC 9110 section 8.6: a response without content has no Content-Length.
  if (status !== 204 && status !== 304) head['Content-Length'] = body.length;
  response.writeHead(status, head);
  if (body.length > onePieceBytes) endResponse(response, body);
  else endResponse(response, body.toString('latin1'), 'latin1');
}

/** RFC 9209. The body is the gateway's, so only this header can carry advice after a server error on a payment. */
function proxyStatus(gatewayStatus: number, readOnly: boolean): string {
  const received = `countersign; received-status=${gatewayStatus}`;
  const uncertain = isPaymentServerError({ readOnly, outcome: 'answered', gatewayStatus });
  return uncertain ? `${received}; details="${unknownPaymentAdvice}"` : received;
}

function forwardHeaders(
  names: readonly string[],
  headers: IncomingHttpHeaders,
  head: OutgoingHttpHeaders,
): void {
  for (const name of names) {
    const value = headers[name];
    if (value !== undefined) head[name] = value;
  }
}

/**
 * Streams a response that is too large to buffer: its head is sent before it is complete. When one side closes, the
 * other one is closed too. A client may disconnect or read too slowly and the outcome is still known; if the gateway
 * ends early, it is not.
 */
async function streamRest(
  response: Response,
  prefix: Buffer,
  stream: NonNullable<GatewayResponse['rest']>,
): Promise<Pick<ResponseResult, 'outcome' | 'reason'> | undefined> {
  try {
    response.write(prefix);
    // With `end: false`, a pipeline that fails does not end the response.
    await pipeline(stream, response, { end: false });
    response.end();
    return undefined;
  } catch (error) {
    // The pipeline does not destroy it if the response was closed from the start.
    stream.destroy();
    const reason = error instanceof UpstreamError ? error.reason : 'gateway-reset';
    const slowClient = reason === 'gateway-timeout' && response.writableNeedDrain;
    const truncated = !response.destroyed && !slowClient;
    abortResponse(response);
    return truncated ? { outcome: 'unknown', reason } : undefined;
  }
}

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
  securityHeaders: OutgoingHttpHeaders,
): Promise<ResponseResult | undefined> {
  const { status, reason, outcome } = error;
  const { headers, body } = problemDetails(error, identity);
  // By then Node has read a body that arrived together with the head, so the connection need not be closed.
  if (!response.headersSent) await nextTurn();
  // When a request is aborted, its handling continues and may have written a response meanwhile.
  if (hasEnded(response)) return undefined;
  if (response.headersSent) {
    abortResponse(response);
    // The client has read the status of the response that was aborted, and no other.
    return { status: response.statusCode, reason, outcome };
  }
  const unread = !request.readableEnded && !request.complete;
  if (unread || closingStatuses.has(status)) response.setHeader('Connection', 'close');
  response.writeHead(status, { ...securityHeaders, ...headers });
  endResponse(response, body);
  return { status, reason, outcome };
}

/**
 * Closes the connection of a truncated response so that it cannot pass for a complete one: in HTTP/1.0 the end of the
 * connection may be all that ends a response. TCP is reset; TLS ends without close_notify (RFC 8446 section 6.1).
 */
function abortResponse(response: ServerResponse): void {
  const { socket } = response;
  if (socket !== null && !(socket instanceof TLSSocket)) socket.resetAndDestroy();
  response.destroy();
}

/**
 * Waits until the client has received what was written of the response, or destroys its connection at the timeout.
 *
 * @param timeout milliseconds
 * @param done called when nothing of the response is in memory any more
 */
export function awaitReader(response: ServerResponse, timeout: number, done: () => void): void {
  const { closed, writableLength, socket } = response;
  // The operating system has all of it: most responses, as soon as they end.
  const isHandedOver = hasEnded(response) && writableLength === 0 && socket?.writableLength === 0;
  if (closed || isHandedOver) {
    done();
    return;
  }
  const timer = setTimeout(() => abortResponse(response), timeout);
  response.once('close', () => {
    clearTimeout(timer);
    done();
  });
}
