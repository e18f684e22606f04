import { idHoldsCardNumber } from '../../redact-card-data.ts';

/** The fields of a `traceparent` header that we use. */
export interface TraceContext {
  /** 32 lowercase hex digits. */
  readonly traceId: string;
  /** 16 lowercase hex digits. */
  readonly spanId: string;
  /** Whether the client may have recorded the trace. */
  readonly sampled: boolean;
}

const layout =
  /^(?!ff)(?<version>[0-9a-f]{2})-(?!0{32})(?<traceId>[0-9a-f]{32})-(?!0{16})(?<spanId>[0-9a-f]{16})-(?<flags>[0-9a-f]{2})(?<rest>-.*)?$/;

const sampledFlag = 0x01;

/**
 * W3C Trace Context sections 3.2.2 and 3.2.4: version 00 has exactly 55 characters, a later version may add fields
 * after a dash, and ff is invalid. An invalid header is ignored, and so is one with an ID that may hold a card number: log,
 * exemplars and traces show them.
 */
export function parseTraceparent(header: string): TraceContext | undefined {
  const { version, traceId, spanId = '', flags = '', rest } = layout.exec(header)?.groups ?? {};
  if (traceId === undefined || (version === '00' && rest !== undefined)) return undefined;
  if (idHoldsCardNumber(traceId) || idHoldsCardNumber(spanId)) return undefined;
  const sampled = (Number.parseInt(flags, 16) & sampledFlag) !== 0;
  return { traceId, spanId, sampled };
}
