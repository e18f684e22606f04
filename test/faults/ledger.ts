import type { FaultName } from './faults.ts';
import type { RequestPlan } from './plan.ts';

/** What a caller received for one request. */
export interface ReceivedResponse {
  readonly status: number;
  /** The header `Countersign-Outcome`. */
  readonly outcome: string | undefined;
  /** Of a problem document. */
  readonly problem: { readonly outcome: string; readonly reason: string } | undefined;
  readonly requestId: string | undefined;
  readonly saysClose: boolean;
  /** `false`: the connection ended before the response did. */
  readonly complete: boolean;
  /** The order ID in a body of the gateway. */
  readonly bodyOf: string | undefined;
  /** `whole`: every byte as the gateway sent it; `part`: the beginning of it; `altered`: other bytes. */
  readonly body: 'whole' | 'part' | 'altered' | 'none';
}

/** One upstream request, as the gateway saw it. */
export interface UpstreamRequest {
  readonly fault: FaultName;
  /** Milliseconds, as all times here. */
  readonly at: number;
  /** Whether it was read to its last byte. */
  whole: boolean;
}

/** Everything that is known about one request. */
export interface RequestRecord {
  readonly plan: RequestPlan;
  /** The process that its connection led to. */
  process: ProcessRecord | undefined;
  /** How much of it the caller wrote. */
  sent: 'nothing' | 'part' | 'whole';
  /** When the caller had written all it was going to write, and when it stopped waiting. */
  sentAt: number;
  endedAt: number;
  /** The caller disconnected before the response was complete. */
  abandoned: boolean;
  /** What ended the connection before a complete response: FIN, an error code, or `timeout`. */
  ending: string | undefined;
  response: ReceivedResponse | undefined;
  /** Bytes behind the last response of the connection. */
  surplus: boolean;
  /** How the last response before it on the connection ended. */
  behind: 'nothing' | 'close' | 'break';
  readonly upstream: UpstreamRequest[];
  readonly lines: { readonly requestId: string; readonly outcome: string }[];
}

/** One run of `countersign serve`. */
export interface ProcessRecord {
  readonly name: string;
  readonly signals: { readonly name: string; readonly at: number }[];
  endedAt: number | undefined;
  exit: string | undefined;
  stderr: string;
  /** IDs of requests that were rejected before their own ID was known: their lines lack it. */
  readonly unknown: Set<string>;
  /** How many of them had no line, as the log says: lines of such requests have a rate limit. */
  withoutLine: number;
  /** Log lines with the stack of an internal error. */
  readonly internalErrors: string[];
}

export interface Ledger {
  readonly requests: readonly RequestRecord[];
  readonly processes: readonly ProcessRecord[];
}

export const newRecord = (plan: RequestPlan): RequestRecord => ({
  plan,
  process: undefined,
  sent: 'nothing',
  sentAt: 0,
  endedAt: 0,
  abandoned: false,
  ending: undefined,
  response: undefined,
  surplus: false,
  behind: 'nothing',
  upstream: [],
  lines: [],
});

export const newProcess = (name: string): ProcessRecord => ({
  name,
  signals: [],
  endedAt: undefined,
  exit: undefined,
  stderr: '',
  unknown: new Set(),
  withoutLine: 0,
  internalErrors: [],
});
