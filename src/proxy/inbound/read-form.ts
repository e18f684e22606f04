import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorCode, isParserError, overloaded, ProxyError } from '../../errors.ts';
import { decodeForm } from '../../oauth1/decode-form.ts';
import type { Pair } from '../../oauth1/parameters.ts';
import type { MemoryReservation } from '../limits.ts';
import { expectsContinue } from './validate-head.ts';

interface BodyLimits {
  readonly maxBodyBytes: number;
  readonly maxParameters: number;
  /** Milliseconds from the start of reading the body to its last byte. */
  readonly timeout: number;
}

/**
 * Memory for each byte of a form, which is held as received, decoded, and encoded and signed. Measured with forms of
 * 64 KiB that consist of percent escapes.
 */
const bytesHeldPerByte = 6;

/** Chunks that are held as such. Each of them, even of a single byte, uses 400 bytes. */
const maxChunks = 256;

export type ReadForm = (
  request: IncomingMessage,
  response: ServerResponse,
  memory: MemoryReservation,
) => Promise<Pair[]>;

/**
 * Reads the whole body into one buffer, then decodes it. "100 Continue" is sent here, unless the announced length is
 * already too large.
 *
 * The returned function throws ProxyError `too-large`, `request-timeout`, `caller-gone`, `malformed-form`,
 * `bad-request`, and `overloaded` if the memory budget is used up.
 */
export function createFormReader(limits: BodyLimits): ReadForm {
  return async (request, response, memory) => {
    if (Number(request.headers['content-length']) > limits.maxBodyBytes) throw payloadTooLarge(limits);
    if (expectsContinue(request)) response.writeContinue();
    // Usually the body arrived with the head. Listeners and a timer would cost more than decoding it.
    const body = request.complete
      ? receivedBody(request, limits, memory)
      : await readBody(request, limits, memory);
    return decodeReceived(body, limits);
  };
}

function receivedBody(request: IncomingMessage, limits: BodyLimits, memory: MemoryReservation): Buffer {
  const chunks: Buffer[] = [];
  for (let chunk = request.read(); chunk !== null; chunk = request.read()) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const failure = failureOfSize(body.length, body.length, limits, memory);
  if (failure !== undefined) throw failure;
  return body;
}

/** @param added bytes that were not reserved yet */
function failureOfSize(
  size: number,
  added: number,
  limits: BodyLimits,
  memory: MemoryReservation,
): ProxyError | undefined {
  if (size > limits.maxBodyBytes) return payloadTooLarge(limits);
  if (memory.reserve(added * bytesHeldPerByte)) return undefined;
  const detail = 'The requests in flight use all memory reserved for them. Send the request again later.';
  return overloaded('proxy.maxBufferedBytes', detail);
}

/** Reads the raw bytes. If the body is rejected, sending the response deals with the unread rest. */
function readBody(request: IncomingMessage, limits: BodyLimits, memory: MemoryReservation): Promise<Buffer> {
  if (request.destroyed) return Promise.reject(clientClosedRequest());
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const pieces: Buffer[] = [];
  const chunks: Buffer[] = [];
  let size = 0;
  const collect = (chunk: Buffer): void => {
    chunks.push(chunk);
    if (chunks.length === maxChunks) pieces.push(Buffer.concat(chunks.splice(0)));
    size += chunk.length;
    const failure = failureOfSize(size, chunk.length, limits, memory);
    if (failure !== undefined) reject(failure);
  };
  const fail = (error: Error): void => reject(errorForBodyFailure(error));
  const close = (): void => {
    // Not needed after a complete body, and creating an error costs as much as signing.
    if (!request.readableEnded) reject(clientClosedRequest());
  };
  const timedOut = `Timed out after ${limits.timeout / 1000} s reading the body.`;
  // The connection keeps the process alive; without it, a shutdown need not wait for a body that never ends.
  const timer = setTimeout(() => reject(new ProxyError('request-timeout', timedOut)), limits.timeout).unref();
  request
    .on('data', collect)
    .on('error', fail)
    .once('end', () => resolve(Buffer.concat([...pieces, ...chunks])))
    .once('close', close);
  return promise.finally(() => {
    clearTimeout(timer);
    request.off('data', collect).off('error', fail);
  });
}

/**
 * What the proxy makes of these bytes. Parameters are counted before decoding, because many tiny ones cost more than a few
 * long ones.
 *
 * @throws ProxyError `too-large`, `malformed-form`
 */
export function decodeReceived(
  body: Buffer,
  limits: Pick<BodyLimits, 'maxBodyBytes' | 'maxParameters'>,
): Pair[] {
  const { maxBodyBytes, maxParameters } = limits;
  if (body.length > maxBodyBytes) throw payloadTooLarge(limits);
  let parts = 1;
  for (let at = body.indexOf('&'); at !== -1 && parts <= maxParameters; at = body.indexOf('&', at + 1))
    parts += 1;
  if (parts > maxParameters)
    throw new ProxyError('too-large', `The form has more than ${maxParameters} parameters.`);
  return decodeForm(body);
}

/** HPE_INVALID_EOF_STATE means that the connection ended within the body. */
function errorForBodyFailure(error: Error): ProxyError {
  return isParserError(error) && errorCode(error) !== 'HPE_INVALID_EOF_STATE'
    ? new ProxyError('bad-request', 'Invalid HTTP/1.1 body framing.')
    : clientClosedRequest();
}

function clientClosedRequest(): ProxyError {
  return new ProxyError('caller-gone', 'The connection ended before the body was complete.');
}

function payloadTooLarge({ maxBodyBytes }: Pick<BodyLimits, 'maxBodyBytes'>): ProxyError {
  return new ProxyError('too-large', `The form has more than ${maxBodyBytes} bytes.`);
}
