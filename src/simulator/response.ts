import type { ServerResponse } from 'node:http';
import type { Pair } from '../oauth1/parameters.ts';
import { percentEncode } from './percent.ts';

/** One answer of the simulated gateway. */
export interface SimulatorResponse {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  /** The interface text does not show this reply: it is sent with `Simulator-Undocumented: true`. */
  readonly undocumented?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

const html = 'text/html;charset=utf-8';

/**
 * Interface section 2.2: `name=value` pairs joined by `&`, a line feed after each value, spaces as `+` and all
 * else that is not unreserved as `%XX`.
 */
export function formReply(fields: readonly Pair[], invented = false): SimulatorResponse {
  const body = fields.map(([name, value]) => `${formEncode(name)}=${formEncode(value)}\n`).join('&');
  return { status: 200, type: html, body, undocumented: invented };
}

/** Interface section 4.1. The type of a balance reply is not shown; JSON has one of its own. */
export function jsonReply(body: string, invented = false): SimulatorResponse {
  return { status: 200, type: 'application/json', body, undocumented: invented };
}

/** Interface section 7 shows the 403 as HTML that states access is denied; other statuses are invented. */
export function htmlReply(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): SimulatorResponse {
  const body = `<!DOCTYPE html>\n<html><head><title>${status}</title></head><body><h1>${text}</h1></body></html>\n`;
  return { status, type: html, body, undocumented: status !== 403, headers };
}

/** Bypasses `response.send`, which would rewrite the content type and add an `ETag`. */
export function writeReply(response: ServerResponse, reply: SimulatorResponse): void {
  writeHead(response, reply);
  response.end(reply.body);
}

export function writeHead(
  response: ServerResponse,
  { status, type, body, undocumented: invented, headers }: SimulatorResponse,
): void {
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    ...(invented ? { 'Simulator-Undocumented': 'true' } : {}),
    ...headers,
  });
}

function formEncode(text: string): string {
  return percentEncode(text).replaceAll('%20', '+');
}
