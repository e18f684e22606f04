import type { IncomingMessage } from 'node:http';
import type { VerifiedCredential } from '../../auth/verified-credential.ts';
import { ProxyError } from '../../errors.ts';
import { holdsCardNumberAnywhere } from '../../redact-card-data.ts';
import { isFromWebPage, isKnownHost } from '../../util/http-server.ts';

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

/** The fields of a `traceparent` header that we use. */
export interface TraceContext {
  /** 32 lowercase hex digits. */
  readonly traceId: string;
  /** 16 lowercase hex digits; absent if they hold a card number, since traces show them. */
  readonly spanId?: string;
  /** Whether the client may have recorded the trace. */
  readonly sampled: boolean;
}

const layout =
  /^(?!ff)(?<version>[0-9a-f]{2})-(?!0{32})(?<traceId>[0-9a-f]{32})-(?!0{16})(?<spanId>[0-9a-f]{16})-(?<flags>[0-9a-f]{2})(?<rest>-.*)?$/;

const sampledFlag = 0x01;

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
  const { httpVersion } = request;
  // Node's parser also accepts the versions 0.9 and 2.0, and would respond as to HTTP/1.1.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw ambiguous('Unsupported HTTP version. Use HTTP/1.1.');
  }
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

function checkHeaderNames({ rawHeaders, httpVersion }: IncomingMessage): void {
  if (rawHeaders.length > 2 * maxHeaders) throw badRequest(`More than ${maxHeaders} headers.`);
  const names: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = String(rawHeaders[index]).toLowerCase();
    names.push(name);
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

/**
 * The request ID that a client sent as `X-Request-Id`, for log and error responses, so that both sides can find each
 * other's line. Ignored if it has other characters, or as many digits in a row as an account number.
 */
export function parseCallerRequestId(header: string | undefined): string | undefined {
  return header !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(header) && !/\d{12}/.test(header)
    ? header
    : undefined;
}

/**
 * W3C Trace Context sections 3.2.2 and 3.2.4: version 00 has exactly 55 characters, a later version may add fields
 * after a dash, and ff is invalid. An invalid header is ignored, and so is one whose trace ID holds a card number: log and
 * exemplars show it. So do 6 of 1,000 random ones.
 */
export function parseTraceparent(header: string | undefined): TraceContext | undefined {
  if (header === undefined) return undefined;
  const { version, traceId, spanId = '', flags = '', rest } = layout.exec(header)?.groups ?? {};
  if (traceId === undefined || (version === '00' && rest !== undefined)) return undefined;
  if (holdsCardNumberAnywhere(traceId)) return undefined;
  const sampled = (Number.parseInt(flags, 16) & sampledFlag) !== 0;
  return holdsCardNumberAnywhere(spanId) ? { traceId, sampled } : { traceId, spanId, sampled };
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

/**
 * Rejects what any web page can make a browser send: it needs no credentials to reach an anonymous caller, and the
 * browser presents client certificates for it. It does not know bearer tokens.
 *
 * @param allowedHosts for anonymous callers, as for {@link isKnownHost}: with DNS rebinding, the page has our origin
 * @throws ProxyError `web-page`, `unknown-host`
 */
export function rejectWebPage(
  { headers }: IncomingMessage,
  { kind }: VerifiedCredential,
  allowedHosts: readonly string[],
): void {
  if (kind !== 'anonymous' && kind !== 'certificate') return;
  if (isFromWebPage(headers)) {
    throw new ProxyError(
      'web-page',
      'A web page sent this (Origin or Sec-Fetch-Site header). Send it from a server, or with a bearer token.',
    );
  }
  if (kind === 'anonymous' && !isKnownHost(headers.host, allowedHosts)) {
    throw new ProxyError(
      'unknown-host',
      'Without credentials the Host has to be an IP address, localhost, or a name in proxy.allowedHosts. Use one of them, or have the name added.',
    );
  }
}
