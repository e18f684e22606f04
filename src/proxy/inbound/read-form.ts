import type { IncomingMessage, ServerResponse } from 'node:http';
import { ProxyError } from '../../errors.ts';
import { decodeForm } from '../../oauth1/form.ts';
import type { Pair } from '../../oauth1/parameters.ts';
import type { MemoryReservation } from '../memory-budget.ts';
import { expectsContinue } from './validate-head.ts';

export interface BodyLimits {
  readonly maxBodyBytes: number;
  readonly maxParameters: number;
  /** Milliseconds from the first look at the body to its last byte. */
  readonly timeout: number;
}

const ampersand = 0x26;

/**
 * Bytes held for each byte of a form: as it came, decoded, and once more encoded and signed. Measured with forms of
 * 64 KiB that consist of escapes.
 */
const bytesHeldPerByte = 6;

export type ReadForm = (
  request: IncomingMessage,
  response: ServerResponse,
  memory: MemoryReservation,
) => Promise<Pair[]>;

/**
 * Makes the reader of a request's form: the whole body in one buffer, then decoded. Who waits for "100
 * Continue" gets it here, unless the announced length is too large already.
 *
 * The reader throws Refusal `too-large`, `request-timeout`, `caller-gone`, `malformed-form`, `bad-request`, and
 * `overloaded` where the memory budget is used up.
 */
export function createFormReader(limits: BodyLimits): ReadForm {
  return async (request, response, memory) => {
    if (Number(request.headers['content-length']) > limits.maxBodyBytes) throw payloadTooLarge(limits);
    if (expectsContinue(request)) response.writeContinue();
    return decodeWithLimit(await readBody(request, limits, memory), limits.maxParameters);
  };
}

/** The bytes as they came; of a body that is refused the rest is left to whoever answers. */
function readBody(request: IncomingMessage, limits: BodyLimits, memory: MemoryReservation): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let size = 0;
  const keep = (chunk: Buffer): void => {
    chunks.push(chunk);
    size += chunk.length;
    if (size > limits.maxBodyBytes) reject(payloadTooLarge(limits));
    else if (!memory.reserve(chunk.length * bytesHeldPerByte)) reject(outOfMemory());
  };
  const fail = (error: Error): void => reject(errorFor(error));
  const close = (): void => {
    // After a whole body nobody needs the error, and making one costs as much as signing.
    if (!request.readableEnded) reject(clientClosedRequest());
  };
  const timer = setTimeout(() => reject(bodyTimeout(limits)), limits.timeout);
  request
    .on('data', keep)
    .on('error', fail)
    .once('end', () => resolve(Buffer.concat(chunks)))
    .once('close', close);
  return promise.finally(() => {
    clearTimeout(timer);
    request.off('data', keep).off('error', fail);
  });
}

/** Counted before they are decoded: many tiny parameters cost more than a few long ones. */
function decodeWithLimit(body: Buffer, maxParameters: number): Pair[] {
  let parts = 1;
  for (const byte of body) parts += byte === ampersand ? 1 : 0;
  if (parts > maxParameters)
    throw new ProxyError('too-large', `The form has more than ${maxParameters} parameters.`);
  return decodeForm(body);
}

/** The parser's errors begin with HPE, and this one is the end of the connection in mid-body. */
function errorFor(error: Error): ProxyError {
  const code = 'code' in error ? String(error.code) : '';
  return code.startsWith('HPE_') && code !== 'HPE_INVALID_EOF_STATE'
    ? new ProxyError('bad-request', 'The body is not framed as HTTP/1.1 says.')
    : clientClosedRequest();
}

function clientClosedRequest(): ProxyError {
  return new ProxyError('caller-gone', 'The connection ended before the body was complete.');
}

function outOfMemory(): ProxyError {
  const detail =
    'The requests in flight use all memory that is set aside for them. Send the request again later.';
  return new ProxyError('overloaded', detail, { retryAfter: 1 });
}

function bodyTimeout({ timeout: deadline }: BodyLimits): ProxyError {
  return new ProxyError('request-timeout', `The body did not arrive within ${deadline / 1000} s.`);
}

function payloadTooLarge({ maxBodyBytes }: BodyLimits): ProxyError {
  return new ProxyError('too-large', `The form has more than ${maxBodyBytes} bytes.`);
}
