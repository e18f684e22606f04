import type { Severity } from '../../observability/status/finding-codes.ts';
import {
  counted,
  latency,
  percent,
  rate,
  relative,
  since,
  skew,
  span,
  whole,
} from '../../observability/status/format.ts';
import { keyStates, nextRead } from '../../observability/status/key-texts.ts';
import type { FailedRequest, Finding, KeyStatus, Status } from '../../observability/status/schema.ts';
import { printable } from '../../util/text.ts';
import { table } from '../shared/table.ts';

/** Enough digits to compare by eye. */
const fingerprintLength = 16;
/** Of a finding. */
const maxPayments = 10;

type Rows = readonly (readonly string[])[];

interface Section {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: Rows;
  /** In place of a table without rows. */
  readonly empty: string;
}

interface RenderOptions {
  /** Address of the instance. */
  readonly origin: string;
  /** How many lines of failed requests are shown. */
  readonly failures: number;
  /** Characters of a line. */
  readonly width: number;
}

/** The sections of the status page as lines of plain ASCII. Ages are measured on the clock of the instance. */
export function statusLines(status: Status, { origin, failures, width }: RenderOptions): string[] {
  const { at: now, health, well } = status;
  const sections = [
    environments(status),
    keys(status, now),
    callers(status, now),
    failedRequests(status, now, failures),
    certificates(status, now),
  ];
  const lines = [
    `${health.ready ? `Ready${well ? '' : ', NOT WELL'}` : 'NOT READY'}: ${origin} at ${now}`,
    ...findingLines(status.findings.flatMap(findingRows), width),
    ...sections.flatMap((section) => ['', ...sectionLines(section, width)]),
    '',
    ...processLines(status, now),
  ];
  return lines.map(printable);
}

function sectionLines({ title, head, rows, empty }: Section, width: number): string[] {
  if (rows.length === 0) return [`${title}: ${empty}`];
  return [title, ...indentedTable(head, rows, width)];
}

function indentedTable(head: Section['head'], rows: Rows, width: number): string[] {
  return table(head, rows, width - 2).map((line) => `  ${line}`);
}

/** Without the line of the headings. */
function findingLines(rows: Rows, width: number): string[] {
  return indentedTable(['', ''], rows, width).slice(1);
}

function findingRows({ severity, summary, advice, runbookSection, payments }: Finding): string[][] {
  const more = payments.length - maxPayments;
  return [
    [severityText(severity), `${summary}. ${advice} (runbook ${runbookSection})`],
    ...payments
      .slice(0, maxPayments)
      .map(({ at, operation, orderId, caller, login, requestId }) => [
        '',
        `${at} ${operation ?? '-'} order ${orderId ?? '-'} of ${caller ?? '-'}, login ${login ?? '-'}, request ${requestId}`,
      ]),
    ...(more > 0 ? [['', `and ${more} more payments: see --json`]] : []),
  ];
}

function severityText(severity: Severity): string {
  return severity === 'bad' ? 'BAD' : severity;
}

/** A dash for what is not known. */
function known<T>(value: T | null, text: (value: T) => string): string {
  return value === null ? '-' : text(value);
}

function environments({ environments: list }: Status): Section {
  return {
    title: 'Environments (last minute)',
    head: ['NAME', 'GATEWAY', 'IN FLIGHT', 'REQUESTS/S', 'FAILED', '401/403', 'P50', 'P99', 'SKEW'],
    rows: list.map(({ name, gatewayHost, inFlight, maxInFlight, ...environment }) => [
      name,
      gatewayHost,
      `${inFlight} of ${maxInFlight}`,
      rate(environment.requestsPerSecond),
      known(environment.failedShare, percent),
      known(environment.rejectedShare, percent),
      known(environment.latency, ({ p50 }) => latency(p50)),
      known(environment.latency, ({ p99 }) => latency(p99)),
      known(environment.clockSkew, (seconds) => skew(seconds).replace('\u2212', '-')),
    ]),
    empty: 'none',
  };
}

function keys({ keys: { total, list } }: Status, now: string): Section {
  return {
    title: list.length < total ? `Keys (the last used ${list.length} of ${total})` : 'Keys',
    head: ['LOGIN', 'KIND', 'VERSION', 'STATE', 'AGE', 'FINGERPRINT', 'NOTES'],
    rows: list.flatMap((key) => keyRows(key, now)),
    empty: 'none in use',
  };
}

function callers({ callers: list }: Status, now: string): Section {
  return {
    title: 'Callers (since the start)',
    head: ['NAME', 'REQUESTS', 'DENIED', 'LAST SEEN'],
    rows: list.map(({ name, requests, denied, lastSeenAt }) => [
      name,
      whole(requests),
      whole(denied),
      lastSeenAt === null ? 'never' : relative(now, lastSeenAt),
    ]),
    empty: 'none',
  };
}

/** Equal failures share a line, with the request ID of the last one. */
function failedRequests({ failures }: Status, now: string, shown: number): Section {
  const kinds = Array.from(
    Map.groupBy(failures, (one) => JSON.stringify({ ...one, at: '', requestId: '' })).values(),
  );
  const more = `${failures.length} in ${kinds.length} lines, ${shown} of them shown; --failures N shows more`;
  return {
    title: `Failed requests${shown > 0 && kinds.length > shown ? ` (${more})` : ''}`,
    head: ['AGE', 'COUNT', 'STATUS', 'OUTCOME', 'OPERATION', 'LOGIN', 'CALLER', 'CAUSE, LAST REQUEST ID'],
    rows: kinds
      .slice(0, shown)
      .flatMap(([last, ...others]) => (last === undefined ? [] : [failureRow(last, others.length + 1, now)])),
    empty: failures.length === 0 ? 'none' : `${failures.length}, not shown`,
  };
}

function failureRow(last: FailedRequest, count: number, now: string): string[] {
  const { environment, operation, cause, runbookSection, requestId } = last;
  return [
    since(now, last.at),
    String(count),
    last.status === null ? 'none' : String(last.status),
    last.outcome,
    environment === null ? '-' : `${environment}/${operation ?? '-'}`,
    last.login ?? '-',
    last.caller ?? '-',
    [cause, ...(runbookSection === null ? [] : [`(runbook ${runbookSection})`]), requestId].join(' '),
  ];
}

function certificates({ certificates: list }: Status, now: string): Section {
  return {
    title: 'Certificates',
    head: ['NAME', 'ENVIRONMENT', 'EXPIRES', 'VALID'],
    rows: list.map(({ name, environment, from, until, problem }) => [
      name,
      environment ?? '-',
      relative(now, until),
      `${from} to ${until}${problem === null ? '' : '; NEW FILES UNUSABLE'}`,
    ]),
    empty: 'none',
  };
}

const reloadAdvice =
  '  The last reload failed or requires a restart: read the log, correct the file, then reload or restart.';

function sourceState({ state, deniedLogins }: Status['keySource']): string {
  if (state === null) return 'not read yet';
  if (state === 'denied') return `DENIES ${counted(deniedLogins, 'login')}`;
  return state === 'up' ? 'up' : 'DOWN';
}

function processLines({ keySource, process, config, runbookUrl }: Status, now: string): string[] {
  const { type, since: changedAt, problem, tokenExpiresAt } = keySource;
  const parts = [
    `${type}, ${sourceState(keySource)}${changedAt === null ? '' : ` for ${since(now, changedAt)}`}`,
    ...(problem === null ? [] : [problem]),
    ...(tokenExpiresAt === null ? [] : [`token expires ${relative(now, tokenExpiresAt)}`]),
  ];
  return [
    `Key source:     ${parts.join('; ')}`,
    `Process:        version ${process.version}, Node ${process.node}, up for ${span(process.uptime)}`,
    `Configuration:  loaded ${since(now, config.loadedAt)} ago, SHA-256 ${config.digest}`,
    ...(config.reloadFailed ? [reloadAdvice] : []),
    ...(runbookUrl === null ? [] : [`Runbook:        ${runbookUrl}`]),
  ];
}

/** One row for each version; the first also names the key. */
function keyRows(key: KeyStatus, now: string): string[][] {
  const { environment, login, kind, newestVersion, missingSince } = key;
  if (missingSince !== null && key.versions.length === 0) {
    const note = `MISSING in the key source for ${since(now, missingSince)}`;
    return [[`${environment}/${login}`, kind, String(newestVersion), 'MISSING', '-', '-', note]];
  }
  return key.versions.map(({ version, state, createdAt, fingerprint, transitKey, problem }, index) => {
    const isFirst = index === 0;
    const inVault = transitKey === null ? [] : [`in Vault (Transit key ${transitKey})`];
    const notes = [
      ...(problem === null ? [] : [problem]),
      ...inVault,
      ...(isFirst ? keyNotes(key, now) : []),
    ];
    return [
      isFirst ? `${key.environment}/${key.login}` : '',
      isFirst ? key.kind : '',
      String(version),
      keyStates[state].tone === 'warn' ? keyStates[state].text.toUpperCase() : keyStates[state].text,
      known(createdAt, (at) => since(now, at)),
      fingerprint?.slice(0, fingerprintLength) ?? '-',
      notes.join('; '),
    ];
  });
}

/** What is known of all versions together. */
function keyNotes(key: KeyStatus, now: string): string[] {
  const { signingVersion, staleSince, readProblem, missingSince, readAt, nextRefreshAt } = key;
  return [
    ...(signingVersion === null ? ['NO USABLE VERSION'] : []),
    ...(missingSince === null ? [] : [`MISSING in the key source for ${since(now, missingSince)}`]),
    ...(staleSince === null ? [] : [`STALE for ${since(now, staleSince)}`]),
    ...(readProblem === null ? [] : [readProblem]),
    `read ${relative(now, readAt)}, ${nextRead(now, nextRefreshAt)}`,
  ];
}

/** JSON in plain ASCII: everything else is escaped, as JSON can. */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    /[^ -~\n]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
