import type { IncomingMessage } from 'node:http';
import { ProxyError } from '../../errors.ts';
import { idHoldsCardNumber, meaningOfId } from '../../redact-card-data.ts';
import { isKnownHost, unknownHost } from '../../util/web-page.ts';

const formMediaType = /^application\/x-www-form-urlencoded[ \t]*(;[ \t]*charset="?utf-8"?[ \t]*)?;?$/i;

const formWithCharset =
  /^application\/x-www-form-urlencoded[ \t]*;[ \t]*charset="?([a-z_-]{2,12}(-?\d{1,4}){0,2})"?[ \t;]*$/i;

/** No digits: a response of ours must not repeat data that arrived in the wrong place. */
const plainMediaType = /^([a-z]{1,20}\/[a-z][a-z.+-]{0,50})[ \t]*(;|$)/i;

const contentCodings: ReadonlySet<string> = new Set([
  'gzip',
  'x-gzip',
  'deflate',
  'br',
  'zstd',
  'compress',
  'identity',
]);

/** Headers of a request. */
export const maxHeaders = 100;

/** If such a header is repeated, Node keeps only one of them, and a server in front of us may have used another. */
const singletonHeaders = ['host', 'content-type', 'authorization', 'countersign-login'];

/**
 * Headers with a dash that determine where a request ends, where it goes or who sent it. Some servers treat `_` and `.` in
 * a name as `-`, so they would interpret a request with such a name differently.
 */
const criticalHeaders: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-length',
  'content-type',
  'countersign-login',
  'transfer-encoding',
]);

/**
 * Validates the head of a request, before the caller is authenticated.
 *
 * @param allowedHosts our names, as for {@link isKnownHost}
 * @throws ProxyError `method-not-allowed`, `bad-request`, `head-too-large`, `unknown-host`, `query-not-allowed`, `unsupported-media-type`
 */
export function validateRequestHead(
  request: IncomingMessage & { readonly originalUrl?: string },
  allowedHosts: readonly string[],
): void {
  const { httpVersion } = request;
  // Node's parser also accepts the versions 0.9 and 2.0, and would respond as to HTTP/1.1.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw badRequest('Unsupported HTTP version. Use HTTP/1.1.');
  }
  checkHeaderNames(request);
  checkFraming(request);
  if (request.method !== 'POST') throw methodNotAllowed();
  useOriginForm(request, allowedHosts);
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

/** @param limit the number of something that a head may have */
export function headTooLarge(limit: string): ProxyError {
  return new ProxyError('head-too-large', `The head of the request has more than ${limit}.`);
}

/** RFC 9110 section 10.1.1: in HTTP/1.0 the expectation is ignored. */
export function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion !== '1.0' && headers.expect !== undefined;
}

function checkHeaderNames({ rawHeaders, httpVersion }: IncomingMessage): void {
  if (rawHeaders.length > 2 * maxHeaders) throw headTooLarge(`${maxHeaders} headers`);
  const names: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = String(rawHeaders[index]).toLowerCase();
    names.push(name);
    // Few names have one. Copying every name would be most of the cost of this check.
    if (!name.includes('_') && !name.includes('.')) continue;
    const normalized = name.replaceAll(/[_.]/g, '-');
    if (criticalHeaders.has(normalized)) {
      throw badRequest(`Ambiguous header ${name}. Send it as ${normalized}, or omit it.`);
    }
  }
  for (const name of singletonHeaders) {
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw badRequest(`Duplicate header ${name}.`);
    }
  }
  if (httpVersion !== '1.0' && !names.includes('host')) throw badRequest('The Host header is missing.');
}

/**
 * RFC 9112 section 3.2.2: also servers accept a target with a host, and ignore the `Host` header then.
 *
 * @param request its `url` is a path already, its `originalUrl` what was received
 */
function useOriginForm(
  request: IncomingMessage & { readonly originalUrl?: string },
  allowedHosts: readonly string[],
): void {
  const { originalUrl = '/' } = request;
  if (originalUrl.startsWith('/')) return;
  const [, host, path = '/'] = /^https?:\/\/([^/?#@]+)(\/.*|\?.*)?$/i.exec(originalUrl) ?? [];
  if (host === undefined) throw badRequest('The request target has to be a path.');
  if (!isKnownHost(host, allowedHosts)) throw unknownHost('The host of the request target');
  request.url = path.startsWith('/') ? path : `/${path}`;
  request.headers.host = host;
}

/** Node accepts these, but another server might interpret them differently and see a different request. */
function checkFraming(request: IncomingMessage): void {
  const { 'transfer-encoding': encoding, expect } = request.headers;
  if (encoding !== undefined && encoding.toLowerCase() !== 'chunked') {
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

function badRequest(detail: string): ProxyError {
  return new ProxyError('bad-request', detail);
}

function unsupported(detail: string): ProxyError {
  return new ProxyError('unsupported-media-type', detail);
}

/**
 * The request ID that a client sent as `X-Request-Id`, for log and error responses, so that both sides can find each
 * other's line. Ignored if it has other characters, may hold a card number, or has as many digits in a row as an account
 * number and the first one of such a number, which times do not have.
 */
export function parseCallerRequestId(header: string | undefined): string | undefined {
  if (header === undefined || !/^[A-Za-z0-9._-]{1,64}$/.test(header)) return undefined;
  const isLikeAccount = /(?<!\d)0*(?!20)[2-6]\d{11}/.test(meaningOfId(header));
  return isLikeAccount || idHoldsCardNumber(header) ? undefined : header;
}

export function isForm(contentType: string): boolean {
  return formMediaType.test(contentType);
}

/** What arrived instead of a form, as a sentence. */
export function describeMediaType(contentType: string | undefined): string {
  if (contentType === undefined) return 'The request has a body but no Content-Type.';
  const charset = formWithCharset.exec(contentType)?.[1];
  if (charset !== undefined) return `The form has the charset ${charset}.`;
  const type = plainMediaType.exec(contentType)?.[1]?.toLowerCase();
  if (type === 'application/x-www-form-urlencoded')
    return 'The Content-Type has other parameters than a charset.';
  return type === undefined ? 'The Content-Type is not that of a form.' : `The Content-Type is ${type}.`;
}

export function describeContentCoding(contentEncoding: string): string {
  const coding = contentEncoding.trim().toLowerCase();
  return contentCodings.has(coding)
    ? `The Content-Encoding is ${coding}.`
    : 'The request has a Content-Encoding.';
}
