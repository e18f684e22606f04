import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from './faults.ts';
import { type Pair, percentEncode } from './form.ts';

/** A response of the simulated gateway. */
export interface SimulatorResponse {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  /** The gateway's interface does not describe this response: it is sent with `Simulator-Undocumented: true`. */
  readonly undocumented?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

const html = 'text/html;charset=utf-8';

/**
 * `name=value` pairs joined by `&`, a line feed after each value, spaces as `+` and everything else that is not
 * unreserved as `%XX` (docs/gateway-interface.md section 2.2).
 */
export function formResponse(fields: readonly Pair[], undocumented = false): SimulatorResponse {
  const encode = (text: string) => percentEncode(text).replaceAll('%20', '+');
  const body = fields.map(([name, value]) => `${encode(name)}=${encode(value)}\n`).join('&');
  return { status: 200, type: html, body, undocumented };
}

/** The 403 is HTML that states that access is denied (docs/gateway-interface.md section 7); other statuses are undocumented. */
export function htmlResponse(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): SimulatorResponse {
  const body = `<!DOCTYPE html>\n<html><head><title>${status}</title></head><body><h1>${text}</h1></body></html>\n`;
  return { status, type: html, body, undocumented: status !== 403, headers };
}

/** Not `response.send`, which would rewrite the content type and add an `ETag`. */
export function writeResponse(response: ServerResponse, content: SimulatorResponse): void {
  writeHead(response, content);
  response.end(content.body);
}

function writeHead(
  response: ServerResponse,
  { status, type, body, undocumented, headers }: SimulatorResponse,
): void {
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    ...(undocumented ? { 'Simulator-Undocumented': 'true' } : {}),
    ...headers,
  });
}

/** What is sent in place of the response, for a fault that is a status. */
export const statusFaults: ReadonlyMap<Fault['fault'], SimulatorResponse> = new Map([
  ['status-429', htmlResponse(429, 'Too many requests')],
  ['status-500', htmlResponse(500, 'Internal error')],
  ['status-502', htmlResponse(502, 'Bad gateway')],
  ['status-503', htmlResponse(503, 'Service unavailable')],
]);

const secondsPerByte = 0.1;

/** Sends the response, or simulates the fault. */
export async function deliver(
  response: ServerResponse,
  {
    content,
    fault: { delaySeconds = 0, fault, cutAfterBytes = 0 } = {},
  }: { readonly content: SimulatorResponse; readonly fault?: Fault },
): Promise<void> {
  await pause(delaySeconds);
  if (response.destroyed) return;
  if (fault === 'cut') cut(response, content, cutAfterBytes);
  else if (fault === 'drip') await drip(response, content);
  else if (fault === 'reset') response.socket?.resetAndDestroy();
  else if (fault === 'garbage') response.socket?.end('this is not HTTP\r\n\r\n');
  else writeResponse(response, content);
}

async function drip(response: ServerResponse, content: SimulatorResponse): Promise<void> {
  writeHead(response, content);
  for (const byte of Buffer.from(content.body)) {
    await pause(secondsPerByte);
    if (response.destroyed) return;
    response.write(Buffer.of(byte));
  }
  response.end();
}

/** A body that is not longer than that is complete. */
function cut(response: ServerResponse, content: SimulatorResponse, bytes: number): void {
  const body = Buffer.from(content.body);
  if (body.length <= bytes) return writeResponse(response, content);
  writeHead(response, content);
  response.flushHeaders();
  response.write(body.subarray(0, bytes));
  response.socket?.destroySoon();
}

/** Does not keep the process alive. */
async function pause(seconds: number): Promise<void> {
  if (seconds > 0) await sleep(seconds * 1000, undefined, { ref: false });
}
