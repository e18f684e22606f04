import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Failures at Vault's address that Vault itself would not respond with. */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly errors?: readonly string[];
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The request is read, and there is no response. */
  | { readonly kind: 'black-hole' }
  /** Reads succeed; a write is processed, and there is no response. */
  | { readonly kind: 'late-write' }
  /** A response whose body arrives byte by byte and never ends. */
  | { readonly kind: 'drip' }
  | { readonly kind: 'html' }
  | { readonly kind: 'cut-json' }
  /** Any JSON as the response, with status 200. */
  | { readonly kind: 'json'; readonly body: unknown }
  /** 60 MB without a Content-Length. */
  | { readonly kind: 'huge' }
  /** The connection is reset before the response. */
  | { readonly kind: 'reset' };

const mebibyte = 1_048_576;

/** Simulates a fault; the timers of a drip end with its connection. */
export function playFault(fault: Fault, response: ServerResponse): void {
  switch (fault.kind) {
    case 'status':
      response.writeHead(fault.status, { 'Content-Type': 'application/json', ...fault.headers });
      response.end(JSON.stringify({ errors: fault.errors ?? [] }));
      return;
    case 'black-hole':
    case 'late-write':
      return;
    case 'drip':
      drip(response);
      return;
    case 'html':
      response.writeHead(200, { 'Content-Type': 'text/html' });
      response.end('<html><body>Sign in</body></html>');
      return;
    case 'cut-json':
      response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"request_id":"1","data":{"da');
      return;
    case 'json':
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(fault.body));
      return;
    case 'huge':
      pour(response, 60);
      return;
    case 'reset':
      reset(response.socket);
  }
}

function drip(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Type': 'application/json' });
  const timer = setInterval(() => response.write(' '), 10);
  response.once('close', () => clearInterval(timer));
}

function pour(response: ServerResponse, mebibytes: number): void {
  if (response.destroyed) return;
  if (mebibytes === 0) {
    response.end();
    return;
  }
  response.write(Buffer.alloc(mebibyte, ' '), () => pour(response, mebibytes - 1));
}

function reset(socket: Socket | null): void {
  socket?.resetAndDestroy();
}
