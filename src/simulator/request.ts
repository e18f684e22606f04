import type { Request } from 'express';
import type { Pair } from './form.ts';
import { baseUrlOf } from './signature.ts';

export type ReceivedRequest = ReturnType<typeof receivedFrom>;

/** The request as received: raw target, raw body, every Authorization header. */
export function receivedFrom(request: Request) {
  const [path = '', ...query] = request.originalUrl.split('?');
  const body: unknown = request.body;
  const segments = Object.entries(request.params).map(([name, value]) => [name, String(value)] as const);
  return {
    /** Scheme, host and path, as RFC 5849 section 3.4.1.2 puts them into the base string. */
    url: baseUrlOf(request.protocol, request.headers.host ?? '', path),
    hasQuery: query.length > 0,
    contentType: request.headers['content-type'],
    authorization: request.headersDistinct['authorization'] ?? [],
    body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    /** The variable segments of the path, decoded. */
    path: Object.fromEntries(segments),
  };
}

/** A verified request, as the operations receive it. */
export interface VerifiedRequest {
  readonly login: string;
  /** The variable segments of the path, decoded. */
  readonly path: Readonly<Record<string, string>>;
  readonly form: readonly Pair[];
  /** The gateway's ID of this request (docs/gateway-interface.md section 2.2). */
  readonly serialNumber: string;
}

/** The first parameter of that name; whether the gateway uses the first or the last is not shown. */
export function parameter({ form }: VerifiedRequest, name: string): string | undefined {
  return form.find(([found]) => found === name)?.[1];
}
