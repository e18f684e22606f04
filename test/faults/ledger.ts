import type { FaultName } from './fault-table.ts';
import type { RequestPlan } from './plan.ts';

export type Outcome = 'answered' | 'not-sent' | 'unknown';

/** What a caller received for one request. */
export interface ReceivedResponse {
  readonly status: number;
  /** The header `Countersign-Outcome`. */
  readonly outcome: string | undefined;
  /** `outcome` and `reason` of a problem document. */
  readonly problem: { readonly outcome: string; readonly reason: string } | undefined;
  readonly requestId: string | undefined;
  readonly saysClose: boolean;
  /** `false`: the connection ended before the response did. */
  readonly complete: boolean;
  /** The order id in a body of the gateway. */
  readonly bodyOf: string | undefined;
  /** `whole`: every byte as the gateway sent it; `part`: the beginning of it; `altered`: other bytes. */
  readonly body: 'whole' | 'part' | 'altered' | 'none';
}

/** One upstream request, as the gateway saw it. */
export interface UpstreamRequest {
  readonly connection: number;
  /** From 1. */
  readonly attempt: number;
  readonly fault: FaultName;
  /** Milliseconds of the harness's clock. */
  readonly at: number;
  /** Whether it was read to its last byte. */
  whole: boolean;
  /** A surplus response had been written to the connection before. */
  readonly surplus: SurplusBefore | undefined;
  /** Whether an egress proxy cut the connection. */
  readonly isCut: () => boolean;
}

export interface SurplusBefore {
  /** In one write with the response it followed, so that it arrived with it. */
  readonly joined: boolean;
  /**
   * From the moment when the gateway, after its last write to the connection, had checked for bytes of a further
   * request and found none, to the first byte of this one; 0 where it found one.
   */
  readonly milliseconds: number;
}

/** One line of a request in the log of a process. */
export interface LoggedRequest {
  readonly process: number;
  readonly requestId: string;
  readonly outcome: string;
  readonly operation: string | undefined;
}

/** Everything that is known about one request. */
export interface RequestRecord {
  readonly plan: RequestPlan;
  /** The process that its connection led to. */
  process: number | undefined;
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
  /** Responses on the connection beyond the number of requests, attributed to the last of them. */
  surplusResponses: number;
  /** How the last response before it on the connection ended. */
  behind: 'nothing' | 'close' | 'break';
  readonly upstreamRequests: UpstreamRequest[];
  readonly lines: LoggedRequest[];
}

/** One run of `countersign serve`. */
export interface ProcessRecord {
  readonly id: number;
  readonly instance: string;
  /** `full` and `stalled`: its log cannot be written, or is not read. */
  readonly log: 'read' | 'full' | 'stalled';
  readonly startedAt: number;
  readonly signals: { readonly name: string; readonly at: number }[];
  endedAt: number | undefined;
  exit: { readonly code: number | null; readonly signal: string | null } | undefined;
  stderr: string;
  /** IDs of requests with a line but no trace: they were rejected before their caller was known. */
  readonly untraced: Set<string>;
  /** How many of them had no line, as the log says: lines of such requests have a rate limit. */
  withoutLine: number;
  /** Log lines with the stack of an internal error. */
  readonly internalErrors: string[];
  /** It no longer responded, and the harness killed it. */
  hung: boolean;
}

export interface Ledger {
  readonly requests: readonly RequestRecord[];
  readonly processes: readonly ProcessRecord[];
}

export function newRecord(plan: RequestPlan): RequestRecord {
  return {
    plan,
    process: undefined,
    sent: 'nothing',
    sentAt: 0,
    endedAt: 0,
    abandoned: false,
    ending: undefined,
    response: undefined,
    surplusResponses: 0,
    behind: 'nothing',
    upstreamRequests: [],
    lines: [],
  };
}
