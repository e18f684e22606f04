import type { Request } from 'express';
import { baseUrlOf } from './signature.ts';
import type { VerifiedRequest } from './verified-request.ts';
import type { RawRequest } from './verify.ts';

/** The request as received: raw target, raw body, every Authorization header. */
export function receivedFrom(request: Request): RawRequest {
  const [path = '', ...query] = request.originalUrl.split('?');
  const body: unknown = request.body;
  const { login } = pathOf(request);
  return {
    url: baseUrlOf(request.protocol, request.headers.host ?? '', path),
    hasQuery: query.length > 0,
    contentType: request.headers['content-type'],
    authorization: request.headersDistinct['authorization'] ?? [],
    body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    pathLogin: login,
  };
}

/** The variable segments of the path, decoded. */
export function pathOf(request: Request): VerifiedRequest['path'] {
  return Object.fromEntries(Object.entries(request.params).map(([name, value]) => [name, String(value)]));
}
