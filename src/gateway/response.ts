import type { GatewayErrorCode, GatewayResult } from '../request-context.ts';

/** A decoded form-encoded reply: names and values in order. */
export type ResponseFields = readonly (readonly [name: string, value: string])[];

const results: ReadonlySet<string> = new Set(['approved', 'declined', 'error', 'filtered']);
const serialNumber = /^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/;

/**
 * What is read of a response at all. Interface section 2.2 names some 110 fields, of which the largest is an
 * HTML form; a response beyond this would hold up every other request while it is decoded.
 */
export const readable = { bytes: 262_144, fields: 1_000 };

const strictUtf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads a form-encoded gateway reply (interface section 2.2: `name=value` pairs joined by `&`, a line feed
 * after each value, sent as `text/html`). `undefined` for everything else: an HTML page, JSON, a form that
 * cannot be decoded, or one beyond {@link readable}.
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

/** The line feed stands after the encoded value; one inside a value is encoded and kept. */
function decode(text: string): string {
  // Several times as fast as replaceAll where there are many.
  return decodeURIComponent(text.trim().split('+').join(' '));
}

/** The reply as a JSON object of strings; a name that is given more than once becomes a list. */
export function responseAsJson(fields: ResponseFields): string {
  const members = [...Map.groupBy(fields, ([name]) => name)].map(([name, same]) => {
    const values = same.map(([, value]) => value);
    return [name, values.length === 1 ? values[0] : values];
  });
  return JSON.stringify(Object.fromEntries(members));
}

/** `status` as one of the values that interface section 3 names; `undefined` where the reply has none. */
export function resultOf(fields: ResponseFields): GatewayResult | undefined {
  const status = fields.find(([name]) => name === 'status')?.[1];
  if (status === undefined) return undefined;
  return isNamedResult(status) ? status : 'other';
}

function isNamedResult(status: string): status is Exclude<GatewayResult, 'other'> {
  return results.has(status);
}

/** `error-code` as one of the codes that interface section 7 names; `undefined` where the reply has none. */
export function errorCodeOf(fields: ResponseFields): GatewayErrorCode | undefined {
  const code = fields.find(([name]) => name === 'error-code')?.[1];
  if (code === undefined || code === '') return undefined;
  return code === '124' ? '124' : 'other';
}

/** `serial-number`, where it looks like one (interface section 2.2: UUID-shaped): it goes into the log. */
export function serialNumberOf(fields: ResponseFields): string | undefined {
  const value = fields.find(([name]) => name === 'serial-number')?.[1];
  return value !== undefined && serialNumber.test(value) ? value : undefined;
}
