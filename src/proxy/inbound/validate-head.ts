import type { IncomingMessage } from 'node:http';
import { ProxyError } from '../../errors.ts';

const form = /^application\/x-www-form-urlencoded[ \t]*(;[ \t]*charset="?utf-8"?[ \t]*)?;?$/i;

/** Of two of these, Node would keep one and somebody before us may have looked at the other. */
const singletonHeaders = ['host', 'content-type', 'authorization', 'countersign-login'];

/**
 * Headers that decide where a request ends, where it goes or who sent it. Some servers read `_` and `.` in a name
 * as `-`; of a request with such a name they would see another request than we do.
 */
const decisive: ReadonlySet<string> = new Set([
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
 * What can be said of a request from its head alone, before anybody is asked who sent it.
 *
 * @throws Refusal `method-not-allowed`, `bad-request`, `query-not-allowed`, `unsupported-media-type`.
 */
export function validateRequestHead(request: IncomingMessage): void {
  checkVersion(request);
  checkHeaderNames(request);
  checkFraming(request);
  if (request.method !== 'POST') throw methodNotAllowed();
  if (request.url?.includes('?')) {
    throw new ProxyError(
      'query-not-allowed',
      'The gateway signs no query. Send the parameters in the form body.',
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

/** Node's parser also reads HTTP/0.9 and HTTP/2.0, and answers as if they were HTTP/1.1. */
function checkVersion({ httpVersion }: IncomingMessage): void {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw ambiguous('The version may only be HTTP/1.1 or HTTP/1.0.');
  }
}

function checkHeaderNames({ rawHeaders, httpVersion }: IncomingMessage): void {
  const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
  for (const name of names) {
    // Almost no name has one, and most of the cost of this check would be making copies.
    if (!name.includes('_') && !name.includes('.')) continue;
    const read = name.replaceAll(/[_.]/g, '-');
    if (decisive.has(read)) throw ambiguous(`Write the header ${name} as ${read}, or not at all.`);
  }
  for (const name of singletonHeaders) {
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw badRequest(`The header ${name} is given twice.`);
    }
  }
  if (httpVersion !== '1.0' && !names.includes('host')) throw badRequest('The header host is missing.');
}

/** Node accepts these; a second server that reads them in another way would see another request. */
function checkFraming(request: IncomingMessage): void {
  const { 'transfer-encoding': encoding, expect } = request.headers;
  if (encoding !== undefined && encoding !== 'chunked') {
    throw badRequest('Transfer-Encoding may only be "chunked".');
  }
  if (encoding !== undefined && request.httpVersion === '1.0') {
    throw badRequest('HTTP/1.0 knows no Transfer-Encoding.');
  }
  if (expectsContinue(request) && expect?.toLowerCase() !== '100-continue') {
    throw badRequest('Expect may only be "100-continue".');
  }
}

function checkMediaType(request: IncomingMessage): void {
  const { 'content-encoding': encoding, 'content-type': type } = request.headers;
  if (encoding !== undefined) throw unsupported('Send the form without Content-Encoding.');
  if (type === undefined && isEmpty(request)) return;
  if (type === undefined || !form.test(type)) {
    throw unsupported('Send the header "Content-Type: application/x-www-form-urlencoded" and a UTF-8 form.');
  }
}

function isEmpty(request: IncomingMessage): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
  return encoding === undefined && length === '0';
}

/** Where two readers may disagree on what a request is, later bytes on its connection are discarded. */
function ambiguous(detail: string): ProxyError {
  return new ProxyError('bad-request', detail, { headers: { Connection: 'close' } });
}

function badRequest(detail: string): ProxyError {
  return new ProxyError('bad-request', detail);
}

function unsupported(detail: string): ProxyError {
  return new ProxyError('unsupported-media-type', detail);
}
