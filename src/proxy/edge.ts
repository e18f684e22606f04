import type { IncomingMessage } from 'node:http';
import { Refusal } from '../errors.ts';

const form = /^application\/x-www-form-urlencoded[ \t]*(;[ \t]*charset="?utf-8"?[ \t]*)?;?$/i;

/**
 * What can be said of a request from its head alone, before anybody is asked who sent it.
 *
 * @throws Refusal `method-not-allowed`, `bad-request`, `query-not-allowed`, `unsupported-media-type`.
 */
export function checkEdge(request: IncomingMessage): void {
  checkFraming(request);
  if (request.method !== 'POST') {
    throw new Refusal('method-not-allowed', 'Send the form with POST.', { headers: { Allow: 'POST' } });
  }
  if (request.url?.includes('?')) {
    throw new Refusal(
      'query-not-allowed',
      'The gateway signs no query. Send the parameters in the form body.',
    );
  }
  checkMediaType(request);
}

/** Node accepts these; a second server that reads them in another way would see another request. */
function checkFraming(request: IncomingMessage): void {
  const encoding = request.headers['transfer-encoding'];
  if (count(request, 'host') > 1) throw badRequest('The header Host is given twice.');
  if (encoding !== undefined && encoding !== 'chunked') {
    throw badRequest('Transfer-Encoding may only be "chunked".');
  }
  if (encoding !== undefined && request.httpVersion === '1.0') {
    throw badRequest('HTTP/1.0 knows no Transfer-Encoding.');
  }
}

function checkMediaType(request: IncomingMessage): void {
  const { 'content-encoding': encoding, 'content-type': type } = request.headers;
  if (encoding !== undefined) throw unsupported('Send the form without Content-Encoding.');
  if (count(request, 'content-type') > 1) throw badRequest('The header Content-Type is given twice.');
  if (type === undefined && isEmpty(request)) return;
  if (type === undefined || !form.test(type)) {
    throw unsupported('Send the header "Content-Type: application/x-www-form-urlencoded" and a UTF-8 form.');
  }
}

function isEmpty(request: IncomingMessage): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
  return encoding === undefined && length === '0';
}

function count(request: IncomingMessage, name: string): number {
  return request.rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === name).length;
}

function badRequest(detail: string): Refusal {
  return new Refusal('bad-request', detail);
}

function unsupported(detail: string): Refusal {
  return new Refusal('unsupported-media-type', detail);
}
