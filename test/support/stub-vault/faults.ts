import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Ways in which something at Vault's address can fail that Vault itself would not choose. */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly errors?: readonly string[];
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The request is read and never answered. */
  | { readonly kind: 'black-hole' }
  /** Reads are answered; a write is carried out, and its response never comes. */
  | { readonly kind: 'late-write' }
  /** A reply whose body comes byte by byte and never ends. */
  | { readonly kind: 'drip' }
  | { readonly kind: 'html'; readonly status?: number }
  | { readonly kind: 'cut-json' }
  /** Any JSON instead of the reply, with status 200. */
  | { readonly kind: 'json'; readonly body: unknown }
  /** 60 MB without a Content-Length. */
  | { readonly kind: 'huge' }
  /** The connection is reset before any reply. */
  | { readonly kind: 'reset' };

const mebibyte = 1_048_576;

/** Plays a fault; the timers of a drip end with its connection. */
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
      response.writeHead(fault.status ?? 200, { 'Content-Type': 'text/html' });
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
