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
import type { AllInstances, Instance, KeyOnInstances } from './compare-instances.ts';

/** Enough digits to compare by eye. */
const fingerprintLength = 16;
/** Of a finding. */
const maxRequestIds = 10;
/** Of a list of addresses. */
const maxAddresses = 5;
/** Keys of all instances that are shown; those that differ come first. */
const maxKeys = 50;

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

/** All instances and their keys as lines of plain ASCII. */
export function allLines({ instances, findings, keys, at, well }: AllInstances, width: number): string[] {
  const ready = instances.filter((one) => one.ready === true).length;
  const rows = findings.map(({ severity, summary, advice, instances }) => [
    severityText(severity),
    `${summary}. ${advice} (${listed(instances)})`,
  ]);
  return [
    `${well ? 'Well' : 'NOT WELL'}: ${ready} of ${counted(instances.length, 'instance')} ready at ${at}`,
    ...findingLines(rows, width),
    ...[instancesSection(instances), sharedKeys(keys, instances, at)].flatMap((section) => [
      '',
      ...sectionLines(section, width),
    ]),
  ].map(printable);
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

function findingRows({ severity, summary, advice, runbookSection, requestIds }: Finding): string[][] {
  const more = requestIds.length - maxRequestIds;
  return [
    [severityText(severity), `${summary}. ${advice} (runbook ${runbookSection})`],
    ...requestIds.slice(0, maxRequestIds).map((id) => ['', `request ${id}`]),
    ...(more > 0 ? [['', `and ${more} more requests: see --json`]] : []),
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

function instancesSection(instances: readonly Instance[]): Section {
  return {
    title: 'Instances (last minute)',
    head: ['ADDRESS', 'VERSION', 'STATE', 'REQUESTS/S', 'FAILED', 'WORST FINDING'],
    rows: instances.map(instanceRow),
    empty: 'none',
  };
}

function instanceRow(instance: Instance): string[] {
  const { address, problem, version, ready, well, requestsPerSecond, failedShare, findings } = instance;
  if (problem !== null) return [address, '-', 'NO STATUS', '-', '-', problem];
  // What is only for information, such as a rotation, is in the table of keys.
  const worst = findings.find(({ severity }) => severity !== 'info');
  return [
    address,
    version ?? '-',
    ready ? (well ? 'ready' : 'ready, NOT WELL') : 'NOT READY',
    rate(requestsPerSecond ?? 0),
    known(failedShare, percent),
    worst === undefined ? 'none' : `${worst.severity}: ${worst.summary}`,
  ];
}

function sharedKeys(keys: readonly KeyOnInstances[], instances: readonly Instance[], now: string): Section {
  return {
    title: keys.length > maxKeys ? `Keys (${maxKeys} of ${keys.length}; --json has all)` : 'Keys',
    head: ['LOGIN', 'KIND', 'VERSION', 'AGE', 'READ BY', 'SIGNS ON', 'ACCEPTED ON', 'REJECTED ON', 'NOTES'],
    rows: keys.slice(0, maxKeys).flatMap((key) => sharedKeyRows(key, instances, now)),
    empty: 'none in use',
  };
}

function sharedKeyRows(
  { environment, login, kind, usedOn, versions }: KeyOnInstances,
  instances: readonly Instance[],
  now: string,
): string[][] {
  const unused = instances.filter(
    ({ problem, address, keysNotListed }) =>
      problem === null && keysNotListed === 0 && !usedOn.includes(address),
  );
  if (versions.length === 0) {
    const none = `0 of ${instances.length}`;
    return [[`${environment}/${login}`, kind, '-', '-', none, '0', '0', '0', 'MISSING in the key source']];
  }
  return versions.map((version, index) => {
    const without = usedOn.filter((address) => !version.readBy.includes(address));
    const isNewest = index === 0;
    return [
      isNewest ? `${environment}/${login}` : '',
      isNewest ? kind : '',
      String(version.version),
      known(version.createdAt, (at) => since(now, at)),
      `${version.readBy.length} of ${instances.length}`,
      String(version.signsOn.length),
      String(version.acceptedOn.length),
      String(version.rejectedOn.length),
      [
        ...(isNewest && without.length > 0 ? [`not read by ${listed(without)}`] : []),
        ...(isNewest && unused.length > 0 ? [`not in use on ${unused.length}`] : []),
      ].join('; '),
    ];
  });
}

function listed(addresses: readonly string[]): string {
  const more = addresses.length - maxAddresses;
  return [...addresses.slice(0, maxAddresses), ...(more > 0 ? [`${more} more`] : [])].join(', ');
}

/** JSON in plain ASCII: everything else is escaped, as JSON can. */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    /[^ -~\n]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
