import type { IncomingHttpHeaders } from 'node:http';
import {
  type GatewayErrorCode,
  type GatewayResult,
  gatewayResults,
  type RequestContext,
} from '../request-context.ts';
import { parseJson } from '../util/text.ts';
import type { Operation } from './operations.ts';

/** A decoded form-encoded response: names and values in order. */
export type ResponseFields = readonly (readonly [name: string, value: string])[];

const results = new Map<string, GatewayResult>(
  gatewayResults.filter((result) => result !== 'coded').map((result) => [result, result]),
);
const serialNumber = /^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/;

/**
 * Larger responses are not parsed, since decoding one would delay every other request. A status response has about 110
 * fields, the largest of which is an HTML form (docs/gateway-interface.md section 2.2).
 */
export const readable = { bytes: 262_144, fields: 1_000 };

const strictUtf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Parses a form-encoded gateway response (docs/gateway-interface.md section 2.2: `name=value` pairs joined by `&`, a
 * line feed after each value, sent as `text/html`). `undefined` for anything else: an HTML page, JSON, a form that
 * cannot be decoded, or one larger than {@link readable}.
 */
export function parseResponse(contentType: string | undefined, body: Buffer): ResponseFields | undefined {
  if (!/^(text\/html|text\/plain|application\/x-www-form-urlencoded)\b/i.test(contentType ?? ''))
    return undefined;
  if (body.length > readable.bytes) return undefined;
  try {
    const text = strictUtf8.decode(body);
    if (!/^\s*[\w.%-]+=/.test(text)) return undefined;
    const parts = text.split('&', readable.fields + 1);
    if (parts.length > readable.fields) return undefined;
    return parts.filter((part) => part.trim() !== '').map(field);
  } catch {
    return undefined;
  }
}

function field(part: string): readonly [string, string] {
  const equals = part.indexOf('=');
  if (equals === -1) return [decode(part), ''];
  return [decode(part.slice(0, equals)), decode(part.slice(equals + 1))];
}

/** The line feed follows the encoded value. One inside a value is encoded, so it is kept. */
function decode(text: string): string {
  // Several times faster than replaceAll if there are many.
  return decodeURIComponent(text.trim().split('+').join(' '));
}

/** The response as a JSON object of strings. A name that appears more than once becomes an array. */
export function responseAsJson(fields: ResponseFields): string {
  const members = [...Map.groupBy(fields, ([name]) => name)].map(([name, same]) => {
    const values = same.map(([, value]) => value);
    return [name, values.length === 1 ? values[0] : values];
  });
  return JSON.stringify(Object.fromEntries(members));
}

/**
 * For log and metrics: `status` and `error-code` as closed values (docs/gateway-interface.md sections 3 and 7), and
 * `serial-number` if it is UUID-shaped (section 2.2). `undefined` for what the response does not have.
 */
export function resultOf(fields: ResponseFields) {
  const valueOf = (name: string): string | undefined => fields.find(([found]) => found === name)?.[1];
  const [status, code, serial] = [valueOf('status'), valueOf('error-code'), valueOf('serial-number')];
  const errorCode: GatewayErrorCode = code === '124' ? code : 'other';
  return {
    gatewayErrorCode: code === undefined || code === '' ? undefined : errorCode,
    gatewayResult: status === undefined ? undefined : (results.get(status) ?? 'other'),
    serialNumber: serial !== undefined && serialNumber.test(serial) ? serial : undefined,
  };
}

/**
 * Seconds by which the gateway's clock is ahead of ours, at least. Its `Date` was made at some time between sending and
 * receiving, and has whole seconds (RFC 9110 section 5.6.7), so that the time may be up to a second later: a clock that is
 * equal to ours has a skew of 0, however slow the response was.
 *
 * @param sentAt milliseconds since 1970, as is `receivedAt`
 */
export function skewOf(
  date: string | undefined,
  { sentAt, receivedAt }: { readonly sentAt: number; readonly receivedAt: number },
): number | undefined {
  const at = Date.parse(date ?? '');
  if (Number.isNaN(at)) return undefined;
  return (Math.max(0, at - receivedAt) + Math.min(0, at + 1000 - sentAt)) / 1000;
}

/**
 * Seconds of skew from which a clock is the likely cause of a 401 or 403. How much the gateway tolerates is not specified
 * (docs/gateway-interface.md section 5.4).
 */
export const notableSkew = 30;

/** A gateway's response as far as it is read here. */
interface ReadableResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Set if `body` is only the first part. */
  readonly rest?: unknown;
  /** Absent if it has none, or was not read yet. */
  readonly form?: ResponseFields | undefined;
}

/** The form in a response; `undefined` if it has none, or one that is not read. */
export function formIn(response: ReadableResponse): ResponseFields | undefined {
  return isReadable(response) ? parseResponse(response.headers['content-type'], response.body) : undefined;
}

function isReadable({ headers, rest }: ReadableResponse): boolean {
  return rest === undefined && !isCoded(headers);
}

/** Whether a body is compressed or coded in another way, although that was not asked for. */
export function isCoded({ 'content-encoding': codings = '' }: IncomingHttpHeaders): boolean {
  return codings.split(',').some((coding) => !/^\s*(?:identity)?\s*$/i.test(coding));
}

/** Whether the gateway rejects the signature, the login or its permission (docs/gateway-interface.md section 11). */
export function isRejection(status: number): boolean {
  return status === 401 || status === 403;
}

/** Statuses with which the gateway may refuse a request that it understood. */
const refusedWith: readonly number[] = [400, 404, 409, 422];

/**
 * What a response says about the key that signed its request; keys/choice.ts says what follows. Only a body that is the
 * gateway's own is a testimony for it: a load balancer responds with 200, 302, 404 or 429 as well. What a gateway responds
 * to a wrong control is not known, so only a success says something about one: no `error`, be it the type or the status.
 */
export function testimonyOf(response: ReadableResponse, { signature }: Pick<Operation, 'signature'>) {
  const testimony = testimonyOfOAuth(response);
  if (signature !== 'SHA1-control') return testimony;
  const isError = response.form?.some(([name, value]) => name === 'status' && value === 'error');
  return testimony === 'accepted' && isError === false ? 'accepted' : 'silent';
}

function testimonyOfOAuth(response: ReadableResponse) {
  const { status } = response;
  if (isRejection(status)) return 'rejected';
  const isSuccess = status >= 200 && status < 300;
  const type = isSuccess || refusedWith.includes(status) ? typeIn(response) : '';
  if (type === '') return 'silent';
  if (!isSuccess) return 'refused';
  return type === 'error' || type === 'validation-error' ? 'error' : 'accepted';
}

/**
 * The `type` of a response of the gateway (docs/gateway-interface.md section 2.2), as a form or as JSON; of a list of
 * balances (section 2.1), which has none, `balances`. Empty: it is not the gateway's. Problem documents of others have a
 * `type` too (RFC 9457), and a content type of their own.
 */
function typeIn(response: ReadableResponse): string {
  const { body, form, headers } = response;
  if (form !== undefined) return form.find(([name]) => name === 'type')?.[1] ?? '';
  if (!/^application\/(?!problem\+)[\w.+-]*json\b/i.test(headers['content-type'] ?? '')) return '';
  if (!isReadable(response) || body.length > readable.bytes) return '';
  const json = parseJson(body.toString());
  if (Array.isArray(json)) return json.every(isBalance) ? 'balances' : '';
  return isObject(json) && typeof json.type === 'string' ? json.type : '';
}

function isBalance(record: unknown): boolean {
  return isObject(record) && 'name' in record && 'amount' in record;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** Whether its caller has to query what happened to a payment. Of one that was sent before, that is the first request. */
export function isUncertainPayment(
  context: Pick<RequestContext, 'readOnly' | 'outcome' | 'gatewayStatus' | 'firstRequestId'>,
): boolean {
  if (context.firstRequestId !== undefined) return false;
  return isPaymentServerError(context) || (context.outcome === 'unknown' && context.readOnly === false);
}

/** Whether the gateway responded to a payment with a server error. The payment may have been processed nevertheless. */
export function isPaymentServerError(
  context: Pick<RequestContext, 'readOnly' | 'outcome' | 'gatewayStatus'>,
): boolean {
  const { readOnly = true, outcome, gatewayStatus = 0 } = context;
  return !readOnly && outcome === 'answered' && gatewayStatus >= 500;
}
