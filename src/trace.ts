import { AsyncLocalStorage } from 'node:async_hooks';
import { ProxyError } from './errors.ts';
import { entriesOf } from './util/text.ts';

/** The steps of a request that have a span. */
export type SpanName =
  | 'payment claim'
  | 'key lookup'
  | 'key source read'
  | 'Vault request'
  | 'wait for a look'
  | 'wait for a key read'
  | 'signature'
  | 'wait for a signing slot'
  | 'audit record'
  | 'upstream request';

/**
 * What a span may say: attributes of the OpenTelemetry semantic conventions, and our own. Each value is from a closed set,
 * from the configuration, a number, or one that the log shows too.
 */
export interface SpanAttributes {
  readonly 'error.type'?: string | undefined;
  readonly 'http.request.method'?: string | undefined;
  readonly 'http.request.resend_count'?: number | undefined;
  readonly 'http.response.status_code'?: number | undefined;
  readonly 'http.route'?: string | undefined;
  readonly 'server.address'?: string | undefined;
  readonly 'server.port'?: number | undefined;
  readonly 'countersign.attempts'?: number | undefined;
  readonly 'countersign.caller'?: string | undefined;
  readonly 'countersign.connection'?: 'pooled' | 'dedicated' | undefined;
  readonly 'countersign.environment'?: string | undefined;
  readonly 'countersign.key.kind'?: string | undefined;
  readonly 'countersign.key.lookup'?: string | undefined;
  readonly 'countersign.key.source'?: string | undefined;
  readonly 'countersign.key.version'?: number | undefined;
  readonly 'countersign.login'?: string | undefined;
  readonly 'countersign.operation'?: string | undefined;
  readonly 'countersign.outcome'?: string | undefined;
  readonly 'countersign.reason'?: string | undefined;
  readonly 'countersign.rejection'?: string | undefined;
  readonly 'countersign.request.id'?: string | undefined;
  readonly 'countersign.signer'?: 'process' | 'transit' | undefined;
  readonly 'countersign.signature.method'?: string | undefined;
}

/** One step of a request whose trace is recorded. */
export interface Span {
  /** Starts a step within this one. `undefined` when the request is over, or has too many steps. */
  begin(name: SpanName): Span | undefined;
  add(attributes: SpanAttributes): void;
  /** Records that something happened now. */
  mark(event: string): void;
  /** @param errorType why, from a closed set */
  fail(errorType: string): void;
  end(): void;
}

const current = new AsyncLocalStorage<Span | undefined>();

/** Makes `span` the one within which `work`, and what it starts, records its steps. */
export function withSpan<T>(span: Span | undefined, work: () => T): T {
  return span === undefined ? work() : current.run(span, work);
}

/** The span of the step that runs now; `undefined` if the trace is not recorded. */
export function currentSpan(): Span | undefined {
  return current.getStore();
}

/** Records `work` as a step of the request that runs now, if its trace is recorded. */
export function inSpan<T>(name: SpanName, work: (span?: Span) => Promise<T>): Promise<T> {
  const span = current.getStore()?.begin(name);
  return span === undefined ? work() : record(span, work);
}

async function record<T>(span: Span, work: (span: Span) => Promise<T>): Promise<T> {
  try {
    return await current.run(span, work, span);
  } catch (error) {
    span.fail(errorTypeOf(error));
    throw error;
  } finally {
    span.end();
  }
}

/** @param address from the configuration, never from a client */
export function serverAttributes(address: string | URL): SpanAttributes {
  const { hostname, port, protocol } = new URL(address);
  const known = protocol === 'https:' ? 443 : 80;
  return { 'server.address': hostname, 'server.port': port === '' ? known : Number(port) };
}

/** From a closed set. The message of an error may hold data. */
function errorTypeOf(error: unknown): string {
  if (error instanceof ProxyError) return error.reason;
  const { reason, kind } = entriesOf(error);
  for (const value of [reason, kind]) {
    if (typeof value === 'string' && /^[a-z-]{1,40}$/.test(value)) return value;
  }
  return 'internal';
}
