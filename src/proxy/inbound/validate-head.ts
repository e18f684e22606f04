import type { IncomingMessage } from 'node:http';
import { ProxyError } from '../../errors.ts';
import { describeContentCoding, describeMediaType, isForm } from './media-type.ts';

/** Headers of a request. */
export const maxHeaders = 100;

/** If such a header is repeated, Node keeps only one of them, and a server in front of us may have used another. */
const singletonHeaders = ['host', 'content-type', 'authorization', 'countersign-login'];

/**
 * Headers that determine where a request ends, where it goes or who sent it. Some servers treat `_` and `.` in a name
 * as `-`, so they would interpret a request with such a name differently.
 */
const criticalHeaders: ReadonlySet<string> = new Set([
  ...singletonHeaders,
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Validates the head of a request, before the caller is authenticated.
 *
 * @throws ProxyError `method-not-allowed`, `bad-request`, `query-not-allowed`, `unsupported-media-type`
 */
export function validateRequestHead(request: IncomingMessage): void {
  checkVersion(request);
  checkHeaderNames(request);
  checkFraming(request);
  if (request.method !== 'POST') throw methodNotAllowed();
  if (request.url?.includes('?')) {
    throw new ProxyError(
      'query-not-allowed',
      'Query parameters are not supported. Send them in the form body.',
    );
  }
  checkMediaType(request);
}

export function methodNotAllowed(): ProxyError {
  return new ProxyError('method-not-allowed', 'Send the form with POST.', { headers: { Allow: 'POST' } });
}

/** RFC 9110 section 10.1.1: in HTTP/1.0 the expectation is ignored. */
export function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion !== '1.0' && headers.expect !== undefined;
}

/** Node's parser also accepts the versions 0.9 and 2.0, and would respond as to HTTP/1.1. */
function checkVersion({ httpVersion }: IncomingMessage): void {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw ambiguous('Unsupported HTTP version. Use HTTP/1.1.');
  }
}

function checkHeaderNames({ rawHeaders, httpVersion }: IncomingMessage): void {
  if (rawHeaders.length > 2 * maxHeaders) throw badRequest(`More than ${maxHeaders} headers.`);
  const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
  for (const name of names) {
    // Few names have one. Copying every name would be most of the cost of this check.
    if (!name.includes('_') && !name.includes('.')) continue;
    const normalized = name.replaceAll(/[_.]/g, '-');
    if (criticalHeaders.has(normalized)) {
      throw ambiguous(`Ambiguous header ${name}. Send it as ${normalized}, or omit it.`);
    }
  }
  for (const name of singletonHeaders) {
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw badRequest(`Duplicate header ${name}.`);
    }
  }
  if (httpVersion !== '1.0' && !names.includes('host')) throw badRequest('The Host header is missing.');
}

/** Node accepts these, but another server might interpret them differently and see a different request. */
function checkFraming(request: IncomingMessage): void {
  const { 'transfer-encoding': encoding, expect } = request.headers;
  if (encoding !== undefined && encoding !== 'chunked') {
    throw badRequest('Transfer-Encoding must be "chunked".');
  }
  if (encoding !== undefined && request.httpVersion === '1.0') {
    throw badRequest('Transfer-Encoding is not allowed with HTTP/1.0.');
  }
  if (expectsContinue(request) && expect?.toLowerCase() !== '100-continue') {
    throw badRequest('Expect must be "100-continue".');
  }
}

function checkMediaType(request: IncomingMessage): void {
  const { 'content-encoding': encoding, 'content-type': type } = request.headers;
  if (encoding !== undefined) {
    throw unsupported(`${describeContentCoding(encoding)} Send the form without Content-Encoding.`);
  }
  if (type === undefined && isEmpty(request)) return;
  if (type === undefined || !isForm(type)) {
    throw unsupported(
      `${describeMediaType(type)} Send the header "Content-Type: application/x-www-form-urlencoded" and a UTF-8 form.`,
    );
  }
}

function isEmpty(request: IncomingMessage): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
  return encoding === undefined && length === '0';
}

/** For requests that two servers may interpret differently. Later bytes on the connection are discarded. */
function ambiguous(detail: string): ProxyError {
  return new ProxyError('bad-request', detail, { headers: { Connection: 'close' } });
}

function badRequest(detail: string): ProxyError {
  return new ProxyError('bad-request', detail);
}

function unsupported(detail: string): ProxyError {
  return new ProxyError('unsupported-media-type', detail);
}
