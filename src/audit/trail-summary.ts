import type { AuditRecord, Head } from './chain.ts';

/** Unfinished requests whose IDs are kept. */
const keptIds = 10;

/** What a trail contains, for a report. */
export class TrailSummary {
  records = 0;
  first: AuditRecord | undefined;
  last: AuditRecord | undefined;
  /** Instance of the last start record. */
  instance = '';
  readonly instances = new Set<string>();
  readonly keys = new Set<string>();
  starts = 0;
  /** Configurations that a start or a reload applied. */
  configs = 0;
  /** The start record or the config record of the last one. */
  lastConfig: AuditRecord | undefined;
  /** Records that could not be written. */
  lost = 0;
  /** Rejected requests that have no record, because their caller had too many. */
  omitted = 0;
  /** Bytes of records that crashes cut off. */
  torn = 0;
  /** The last line, if it is incomplete. */
  incomplete: { readonly file: string; readonly line: number } | undefined;
  /** Requests with an intent and without a result when the process ended. */
  unfinished = 0;
  readonly unfinishedIds: string[] = [];
  readonly #open = new Set<string>();

  get head(): Head | undefined {
    return this.last;
  }

  /** Requests with an intent and, so far, without a result: in flight when the file was copied, or when the process ended. */
  get open(): number {
    return this.#open.size;
  }

  add(record: AuditRecord): void {
    this.records += 1;
    this.first ??= record;
    this.instance = record.instance;
    this.instances.add(record.instance);
    this.keys.add(record.key);
    const { kind, fields } = record;
    if (kind === 'start') this.#start(record);
    else if (kind === 'config') this.#configure(record);
    else if (kind === 'gap') this.lost += numberIn(fields['lost']);
    else if (kind === 'omitted') this.omitted += numberIn(fields['count']);
    else if (kind === 'intent') this.#open.add(idOf(fields));
    else if (kind === 'result' || kind === 'rejected') this.#open.delete(idOf(fields));
    this.last = record;
  }

  /** Another file or key of the same process keeps its requests; another process has none of them. */
  #start(record: AuditRecord): void {
    const { fields } = record;
    this.starts += 1;
    this.torn += numberIn(fields['torn']);
    if (fields['continued'] === true) return;
    if (fields['config'] !== undefined) this.#configure(record);
    this.unfinished += this.#open.size;
    for (const id of [...this.#open].slice(0, keptIds - this.unfinishedIds.length)) {
      this.unfinishedIds.push(id);
    }
    this.#open.clear();
  }

  #configure(record: AuditRecord): void {
    this.configs += 1;
    this.lastConfig = record;
  }
}

/** A canary has the ID of its payment. */
function idOf({ request, canary }: AuditRecord['fields']): string {
  return canary === true ? `canary of ${String(request)}` : String(request);
}

function numberIn(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
