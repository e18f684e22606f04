import type { IncomingHttpHeaders } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import {
  errorCodeOf,
  parseResponse,
  responseAsJson,
  resultOf,
  serialNumberOf,
} from '../../gateway/response.ts';
import type { Destination } from '../../gateway/router.ts';
import { isPaymentServerError, type ResponseResult } from '../../request-context.ts';
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
  requestId: string,
  reply: GatewayResponse,
  { settings, operation }: Destination,
): Promise<ResponseResult> {
  const plain = reply.rest === undefined && reply.headers['content-encoding'] === undefined;
  const fields = plain ? parseResponse(reply.headers['content-type'], reply.body) : undefined;
  const result = { status: reply.status, outcome: 'answered', ...gatewayResultOf(fields) } as const;
  response.status(reply.status);
  for (const [name, value] of forwardedHeaders(reply.headers, settings.responseHeaders))
    response.setHeader(name, value);
  response.setHeader('X-Request-Id', requestId);
  response.setHeader('Countersign-Outcome', 'answered');
  response.setHeader('Proxy-Status', proxyStatus(reply.status, operation.readOnly));
  if (reply.rest !== undefined) {
    const failure = await streamRest(response, reply.body, reply.rest, reply.headers['content-length']);
    return { ...result, ...failure };
  }
  if (fields !== undefined && request.accepts(['text/html', 'application/json']) === 'application/json') {
    response.setHeader('Content-Type', 'application/json; charset=utf-8');
    response.end(responseAsJson(fields));
  } else {
    response.end(reply.body);
  }
  return result;
}

/** RFC 9209. The body is the gateway's; this header is the only place for a word about a server error. */
function proxyStatus(gatewayStatus: number, readOnly: boolean): string {
  const received = `countersign; received-status=${gatewayStatus}`;
  const uncertain = isPaymentServerError({ readOnly, outcome: 'answered', gatewayStatus });
  return uncertain ? `${received}; details="${unknownOutcomeAdvice}"` : received;
}

function gatewayResultOf(
  fields: ReturnType<typeof parseResponse>,
): Pick<ResponseResult, 'gatewayResult' | 'gatewayErrorCode' | 'serialNumber'> {
  if (fields === undefined) return {};
  const gatewayResult = resultOf(fields);
  const gatewayErrorCode = errorCodeOf(fields);
  const serialNumber = serialNumberOf(fields);
  return {
    ...(gatewayErrorCode === undefined ? {} : { gatewayErrorCode }),
    ...(gatewayResult === undefined ? {} : { gatewayResult }),
    ...(serialNumber === undefined ? {} : { serialNumber }),
  };
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
  beginning: Buffer,
  rest: NonNullable<GatewayResponse['rest']>,
  length: string | undefined,
): Promise<Pick<ResponseResult, 'outcome' | 'reason'> | undefined> {
  if (length !== undefined) response.setHeader('Content-Length', length);
  try {
    response.write(beginning);
    // With its end left to us, a pipeline that fails leaves the response as it is.
    await pipeline(rest, response, { end: false });
    response.end();
    return undefined;
  } catch (error) {
    // The pipeline leaves it alone where the response was closed from the start.
    rest.destroy();
    const reason = error instanceof UpstreamError ? error.reason : 'gateway-reset';
    const slowCaller = reason === 'gateway-timeout' && response.writableNeedDrain;
    const truncated = !response.destroyed && !slowCaller;
    abortResponse(response);
    return truncated ? { outcome: 'unknown', reason } : undefined;
  }
}
