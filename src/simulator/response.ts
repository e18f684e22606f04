import type { ServerResponse } from 'node:http';
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

/** A control that is wrong gets 200 here; the gateway's response is not known (docs/gateway-interface.md section 5.5). */
export function controlRejection(reason: string, serialNumber: string): SimulatorResponse {
  const error: Pair[] = [
    ['type', 'validation-error'],
    ['serial-number', serialNumber],
    ['error-message', 'Invalid control'],
    ['error-code', '9007'],
  ];
  return { ...formResponse(error, true), headers: { 'Simulator-Rejection': reason } };
}

/** Not `response.send`, which would rewrite the content type and add an `ETag`. */
export function writeResponse(response: ServerResponse, content: SimulatorResponse): void {
  const { status, type, body, undocumented, headers } = content;
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    ...(undocumented ? { 'Simulator-Undocumented': 'true' } : {}),
    ...headers,
  });
  response.end(body);
}
