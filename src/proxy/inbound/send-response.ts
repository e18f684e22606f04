import type { IncomingHttpHeaders } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import type { EnvironmentConfig } from '../../config/schema.ts';
import {
  errorCodeOf,
  parseResponse,
  responseAsJson,
  resultOf,
  serialNumberOf,
} from '../../gateway/response.ts';
import { isPaymentServerError, type RequestContext } from '../../request-context.ts';
import { type GatewayResponse, UpstreamError } from '../outbound/upstream-request.ts';
import { unknownOutcomeAdvice } from '../outcome.ts';
import { abortResponse } from './abort-response.ts';

/**
 * Gateway headers that are given back, besides those configuration adds. `Content-Encoding` is among them
 * because the body passes unchanged: without it an encoded body could not be read.
 */
const forwardedHeaderNames = ['content-type', 'content-encoding', 'date', 'retry-after', 'cache-control'];

/** What every answer says, and no gateway may say in its place; the length is that of what is sent. */
const ownHeaders = ['x-request-id', 'countersign-outcome', 'proxy-status', 'content-length'];

/**
 * Gives the gateway's answer to the caller: status and body bytes unchanged, or a form-encoded body as JSON
 * where the caller asks for that. A body that breaks off ends the caller's connection.
 */
export async function sendResponse(
  request: Request,
  response: Response,
  exchange: RequestContext,
  reply: GatewayResponse,
  settings: EnvironmentConfig,
): Promise<void> {
  const plain = reply.rest === undefined && reply.headers['content-encoding'] === undefined;
  const fields = plain ? parseResponse(reply.headers['content-type'], reply.body) : undefined;
  recordGatewayResult(exchange, reply, fields);
  response.status(reply.status);
  for (const [name, value] of forwardedHeaders(reply.headers, settings.responseHeaders))
    response.setHeader(name, value);
  response.setHeader('X-Request-Id', exchange.id);
  response.setHeader('Countersign-Outcome', 'answered');
  response.setHeader('Proxy-Status', proxyStatus(exchange, reply));
  if (reply.rest !== undefined) {
    await streamRest(response, exchange, reply.body, reply.rest, reply.headers['content-length']);
  } else if (
    fields !== undefined &&
    request.accepts(['text/html', 'application/json']) === 'application/json'
  ) {
    response.setHeader('Content-Type', 'application/json; charset=utf-8');
    response.end(responseAsJson(fields));
  } else {
    response.end(reply.body);
  }
}

/** RFC 9209. The body is the gateway's; this header is the only place for a word about a server error. */
function proxyStatus(exchange: RequestContext, { status }: GatewayResponse): string {
  const received = `countersign; received-status=${status}`;
  return isPaymentServerError(exchange) ? `${received}; details="${unknownOutcomeAdvice}"` : received;
}

function recordGatewayResult(
  exchange: RequestContext,
  reply: GatewayResponse,
  fields: ReturnType<typeof parseResponse>,
): void {
  exchange.status = reply.status;
  exchange.outcome = 'answered';
  if (fields === undefined) return;
  const result = resultOf(fields);
  const errorCode = errorCodeOf(fields);
  const serialNumber = serialNumberOf(fields);
  if (errorCode !== undefined) exchange.gatewayErrorCode = errorCode;
  if (result !== undefined) exchange.gatewayResult = result;
  if (serialNumber !== undefined) exchange.serialNumber = serialNumber;
}

function* forwardedHeaders(
  headers: IncomingHttpHeaders,
  configured: readonly string[],
): Generator<[name: string, value: string | string[]]> {
  for (const name of new Set([...forwardedHeaderNames, ...configured.map((text) => text.toLowerCase())])) {
    const value = headers[name];
    if (value !== undefined && !ownHeaders.includes(name)) yield [name, value];
  }
}

/**
 * A reply too large to be held: its head goes out before its end is known. When one side leaves, the other is
 * let go as well; a caller may leave during a reply that is known to be there, or be too slow for it, the
 * gateway may not.
 */
async function streamRest(
  response: Response,
  exchange: RequestContext,
  beginning: Buffer,
  rest: NonNullable<GatewayResponse['rest']>,
  length: string | undefined,
): Promise<void> {
  if (length !== undefined) response.setHeader('Content-Length', length);
  try {
    response.write(beginning);
    // With its end left to us, a pipeline that fails leaves the response as it is.
    await pipeline(rest, response, { end: false });
    response.end();
  } catch (error) {
    // The pipeline leaves it alone where the response was closed from the start.
    rest.destroy();
    const reason = error instanceof UpstreamError ? error.reason : 'gateway-reset';
    const slowCaller = reason === 'gateway-timeout' && response.writableNeedDrain;
    if (!response.destroyed && !slowCaller) {
      exchange.outcome = 'unknown';
      exchange.reason = reason;
    }
    abortResponse(response);
  }
}
