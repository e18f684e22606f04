import { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { agentFor, type ServerAccess } from '../../net/agent.ts';
import { NoResponse, type SmallResponse, sendSmallRequest } from '../../net/small-request.ts';
import { reveal, type Secret } from '../../secret.ts';
import { wholeNumberIn } from '../../util/text.ts';

/** Milliseconds for one export. */
const timeout = 10_000;
const maxResponseBytes = 65_536;
/** Seconds. A longer `Retry-After` is capped. */
const maxRetryAfter = 60;
/** OTLP specification, "Retryable Response Codes". */
const retryable: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Where spans are sent to: `tracing` of the configuration. */
export interface DestinationSettings extends ServerAccess {
  /** Without a path, `/v1/traces` is added. */
  readonly otlp: string;
  readonly headers: Readonly<Record<string, Secret>>;
}

/** The result of one export. */
type Delivery =
  /** How many of the spans the receiver rejected. */
  | { readonly rejected: number }
  | {
      /** For the log; without anything secret. */
      readonly cause: string;
      /** Whether the same batch may be accepted later. */
      readonly retryable: boolean;
      /** Seconds. */
      readonly retryAfter?: number | undefined;
    };

/** Sends an encoded batch of spans. Never rejects. */
export type Destination = (body: Buffer, stopped: AbortSignal) => Promise<Delivery>;

/**
 * An OTLP receiver over HTTP (OTLP specification 1.5, section OTLP/HTTP, binary encoding). Each export has its own
 * connection, since there is one per second at most unless every request is traced.
 */
export function createDestination({ otlp, headers, ...access }: DestinationSettings): Destination {
  const url = new URL(otlp);
  if (url.pathname === '/') url.pathname = '/v1/traces';
  const fields = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, reveal(value)]));
  return async (body, stopped) => {
    const contentHeaders = {
      'Content-Type': 'application/x-protobuf',
      'Content-Length': String(body.length),
    };
    const request = { method: 'POST', url, headers: { ...fields, ...contentHeaders }, body };
    const agent = agentFor(url, access);
    try {
      return deliveryOf(await sendSmallRequest(request, { agent, timeout, stopped, maxResponseBytes }));
    } catch (error) {
      const reason = error instanceof NoResponse ? error.reason : 'failed';
      // A receiver that sends too much may have accepted the spans.
      return { cause: messageOf(error), retryable: reason === 'failed' || reason === 'late' };
    }
  };
}

function deliveryOf({ status, headers, bytes }: SmallResponse): Delivery {
  if (status !== 200) {
    const retryAfter = Math.min(wholeNumberIn(headers['retry-after'] ?? '') ?? 0, maxRetryAfter);
    return { cause: `status ${status} instead of 200`, retryable: retryable.has(status), retryAfter };
  }
  const rejected = rejectedSpansIn(bytes);
  return rejected === undefined
    ? { cause: 'the response is not one of OTLP', retryable: false }
    : { rejected };
}

/** `undefined` if it is no response of OTLP. The decoder makes NaN or Infinity of a number that is too long. */
function rejectedSpansIn(bytes: Buffer): number | undefined {
  try {
    const { partialSuccess } = ProtobufTraceSerializer.deserializeResponse(bytes);
    const rejected = partialSuccess?.rejectedSpans ?? 0;
    return Number.isSafeInteger(rejected) ? rejected : undefined;
  } catch {
    return undefined;
  }
}

/** Also of a CA file that cannot be read: all are for operators. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}
