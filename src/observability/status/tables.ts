import type { KeyState } from '../../keys/key-state.ts';
import type { KeyStatus, UncertainPayment } from './facts.ts';
import {
  capitalized,
  clockText,
  kindName,
  latency,
  percent,
  rate,
  relative,
  since,
  skew,
  sourceName,
  versionName,
  whole,
} from './format.ts';
import type { Finding, Status } from './schema.ts';
import { clockDifference, expiring, failing, rejections, type Severity, saturation } from './thresholds.ts';

/** How serious something is. `ok` and `idle` are normal. */
type Tone = Severity | 'ok' | 'idle';

/** A text, and how it looks on the page. */
export type Cell = string | Text;

interface Text {
  readonly text: string;
  /** `none`: there is no value. `pill`: a state in words and color. */
  readonly look?: 'code' | 'none' | 'pill' | 'strong' | undefined;
  readonly tone?: Tone;
  /** On hover. */
  readonly title?: string | undefined;
  /** What belongs to it, in small type. */
  readonly detail?: string | undefined;
  readonly href?: string | undefined;
  /** Where there is a link: keeps the focus. */
  readonly id?: string;
}

/** A part of the status. The first cell of a row names it. */
export interface Table {
  readonly id: string;
  readonly title: string;
  /** What the numbers are about. */
  readonly hint?: string;
  /** Instead of a table without rows. */
  readonly empty?: string;
  /** What a row is. */
  readonly noun: string;
  readonly headings: readonly string[];
  /** What needs attention is first. */
  readonly rows: readonly (readonly Cell[])[];
}

/** So many rows of a table, and payments of a finding, are in sight. */
export const maxRows = 10;

/** What is needed to query the payments of a finding. */
export function paymentsOf({ payments }: Finding): string[] {
  const more = payments.length - maxRows;
  const rest = more > 0 ? [`and ${more} more: countersign status --json`] : [];
  return [...payments.slice(0, maxRows).map(paymentText), ...rest];
}

export function tablesOf(status: Status): Table[] {
  return [environments(status), keysTable(status), callers(status), instance(status), failures(status)];
}

function paymentText(payment: UncertainPayment): string {
  const { at, operation, orderId, caller, login, requestId } = payment;
  return `${at} ${operation ?? '-'} order ${orderId ?? '-'} of ${caller ?? '-'}, login ${login ?? '-'}, request ${requestId}`;
}

/** In one or two words. */
export function stateOf({ health: { ready }, well }: Status): string {
  if (!ready) return 'Not ready';
  return well ? 'Ready' : 'Ready, not well';
}

function environments({ environments: list, findings }: Status): Table {
  const concerned = new Set(findings.map(({ environment }) => environment));
  return {
    id: 'environments',
    title: 'Environments',
    hint: 'Rates, shares and latencies of the last minute',
    noun: 'environment',
    headings: ['Environment', 'In flight', 'Requests/s', 'Failed', 'Rejected', 'p50', 'p99', 'Clock skew'],
    rows: firstThose(list, ({ name }) => concerned.has(name)).map((one) => [
      { text: one.name, detail: one.gatewayHost },
      { ...toned(saturation(one), whole(one.inFlight)), detail: `of ${whole(one.maxInFlight)}` },
      rate(one.requestsPerSecond),
      known(one.failedShare, 'no requests', (share) =>
        toned(share === 0 ? 'ok' : failing(share), percent(share)),
      ),
      known(one.rejectedShare, 'no responses', (share) => toned(rejections(one), percent(share))),
      known(one.latency, 'no requests', ({ p50 }) => latency(p50)),
      known(one.latency, 'no requests', ({ p99 }) => latency(p99)),
      known(one.clockSkew, 'unknown', (seconds) => toned(clockDifference(one), skew(seconds))),
    ]),
  };
}

/** How the state of a key version is shown. */
const keyStates: Readonly<Record<KeyState, { readonly tone: Tone; readonly text: string }>> = {
  'in-use': { tone: 'ok', text: 'In use' },
  waiting: { tone: 'info', text: 'Waiting for the gateway' },
  rejected: { tone: 'bad', text: 'Rejected by the gateway' },
  replaced: { tone: 'idle', text: 'Replaced' },
  unusable: { tone: 'warn', text: 'Unusable' },
};

/** One row for each version. The order of the last use would change with each update. */
export function keysTable({ at, keys: { total, list } }: Status): Table {
  const byName = list.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  return {
    id: 'keys',
    title: 'Keys in use',
    ...(total > list.length && { hint: `The ${whole(list.length)} last used of ${whole(total)}` }),
    empty: 'No key was needed yet. Keys are read from the key source with the first request of a login.',
    noun: 'version',
    headings: ['Login', 'Kind', 'Version', 'State', 'Age', 'Fingerprint'],
    rows: firstThose(byName, isUnsettled).flatMap((key) => keyRows(key, at)),
  };
}

function nameOf({ environment, login, kind }: KeyStatus): string {
  return [environment, login, kind].join(' ');
}

/** Whether its newest version does not sign yet, is rejected as far as known, or the key source has no more of it. */
function isUnsettled({ versions: [newest], staleSince, missingSince }: KeyStatus): boolean {
  return newest?.state !== 'in-use' || staleSince !== null || missingSince !== null;
}

function keyRows({ environment, login, kind, versions, signingVersion }: KeyStatus, now: string): Cell[][] {
  const key = [`${environment}/${login}`, capitalized(kindName(kind))];
  return versions.map(({ version, state, createdAt, fingerprint, transitKey, problem }) => {
    // After a rotation the gateway rejects the older version, as it should.
    const isOver = state === 'rejected' && version < (signingVersion ?? 0);
    return [
      ...key,
      { text: versionName(version), look: version === signingVersion ? 'strong' : undefined },
      {
        ...(isOver ? { tone: 'idle', text: 'No longer accepted' } : keyStates[state]),
        look: 'pill',
        detail: problem ?? (transitKey === null ? undefined : `in Vault: ${transitKey}`),
      },
      known(createdAt, '-', (time) => ({ text: since(now, time), title: time })),
      known(fingerprint, '-', (digits) => ({
        // Enough to compare by eye.
        text: digits.slice(0, 16),
        look: 'code',
        title: digits,
      })),
    ];
  });
}

function callers({ at, callers: list, findings }: Status): Table {
  return {
    id: 'callers',
    title: 'Callers',
    hint: 'Since the start',
    empty: 'No callers are configured, so every request gets 401. Add one under "callers".',
    noun: 'caller',
    headings: ['Caller', 'Requests', 'Denied', 'Limited', 'Last seen'],
    rows: firstThose(
      list,
      ({ name, denied }) => denied > 0 || findings.some(({ caller }) => caller === name),
    ).map(({ name, requests, denied, limited, lastSeenAt }) => [
      name,
      whole(requests),
      toned(denied > 0 ? 'warn' : 'ok', whole(denied)),
      whole(limited),
      known(lastSeenAt, 'never', (time) => ({ text: relative(at, time), title: time })),
    ]),
  };
}

const sourceStates = {
  up: { look: 'pill', tone: 'ok', text: 'Up' },
  denied: { look: 'pill', tone: 'bad', text: 'Denies keys' },
  down: { look: 'pill', tone: 'bad', text: 'Unavailable' },
} as const;

function instance({ at, process, config, keySource: source, certificates }: Status): Table {
  const moment = (time: string | null) =>
    known(time, '-', (known) => ({ text: clockText(at, known), detail: relative(at, known) }));
  const loaded: Text =
    config.problem === null
      ? { look: 'pill', tone: 'ok', text: 'In effect' }
      : { look: 'pill', tone: 'warn', text: 'Differs from the file' };
  return {
    id: 'instance',
    title: 'Instance',
    noun: 'certificate',
    headings: ['Part', 'State', 'Since, or until'],
    rows: [
      ['Process', { text: process.version, detail: `on Node.js ${process.node}` }, moment(process.startedAt)],
      ['Configuration', { ...loaded, detail: config.digest }, moment(config.loadedAt)],
      [
        { text: sourceName(source.type), detail: source.address },
        known(source.state, 'not read yet', (state) => sourceStates[state]),
        moment(source.since),
      ],
      ...certificates.map((one) => {
        const tone = expiring(at, one);
        const text = { bad: 'Expired', warn: 'Renew now', ok: 'Valid' }[tone];
        return [
          { text: `Certificate ${one.name}`, detail: one.environment ?? undefined },
          { look: 'pill', tone, text, detail: one.problem ?? undefined } as const,
          moment(one.until),
        ];
      }),
    ],
  };
}

/** Newest first. */
function failures({ at, failures: list, runbookUrl }: Status): Table {
  return {
    id: 'failures',
    title: 'Failed requests',
    hint: 'The last 100; search the log for the request ID',
    empty: 'No request has failed since the start.',
    noun: 'failed request',
    headings: [
      'Request ID',
      'Time (UTC)',
      'Cause',
      'Status',
      'Outcome',
      'Caller',
      'Environment',
      'Operation',
      'Login',
    ],
    rows: list.map(({ requestId, orderId, cause, runbookSection, outcome, ...one }) => [
      { text: requestId, look: 'code', detail: orderId === null ? undefined : `order ${orderId}` },
      { text: clockText(at, one.at), title: one.at },
      {
        text: cause,
        look: 'code',
        id: `request ${requestId} ${one.at}`,
        href: runbookUrl !== null && runbookSection !== null ? `${runbookUrl}${runbookSection}` : undefined,
      },
      known(one.status, 'no response', String),
      { text: outcome, look: 'pill', tone: outcome === 'unknown' ? 'bad' : 'idle' },
      ...[one.caller, one.environment, one.operation, one.login].map((name) => known(name, '-', String)),
    ]),
  };
}

/** What needs attention is first; else the order stays. */
function firstThose<T>(rows: readonly T[], needsAttention: (row: T) => boolean): T[] {
  return rows.toSorted((one, other) => Number(needsAttention(other)) - Number(needsAttention(one)));
}

/** A value whose seriousness is said elsewhere in words, here by weight and color. */
function toned(tone: Tone, text: string): Text {
  return tone === 'ok' || tone === 'info' ? { text } : { text, look: 'strong', tone };
}

/** A value, or that there is none. */
function known<T>(value: T | null, absence: string, show: (value: T) => Cell): Cell {
  return value === null ? { text: absence, look: 'none' } : show(value);
}
