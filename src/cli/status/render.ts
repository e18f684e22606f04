import { span } from '../../keys/describe.ts';
import type { FailedRequest, Status } from '../../observability/status/schema.ts';
import { printable } from '../shared/printable.ts';
import { table } from '../shared/table.ts';
import { keyRows } from './key-rows.ts';
import { duration, since, until } from './texts.ts';

export interface RenderOptions {
  /** Address of the instance. */
  readonly origin: string;
  /** How many of the last failed requests are shown. */
  readonly failures: number;
}

/** Of a finding. */
const maxRequestIds = 10;

interface Section {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** In place of a table without rows. */
  readonly empty: string;
}

/** The sections of the status page as lines of plain ASCII. Ages are measured on the clock of the instance. */
export function statusLines(status: Status, { origin, failures }: RenderOptions): string[] {
  const now = Date.parse(status.at);
  const sections = [
    environments(status),
    keys(status, now),
    callers(status, now),
    failedRequests(status, now, failures),
    certificates(status, now),
  ];
  const lines = [
    ...healthLines(status, origin),
    ...sections.flatMap((section) => ['', ...sectionLines(section)]),
    '',
    ...processLines(status, now),
  ];
  return lines.map(printable);
}

function sectionLines({ title, head, rows, empty }: Section): string[] {
  if (rows.length === 0) return [`${title}: ${empty}`];
  return [title, ...table(head, rows).map((line) => `  ${line}`)];
}

function healthLines({ health: { ready }, well, findings, at }: Status, origin: string): string[] {
  const state = ready ? `Ready${well ? '' : ', NOT WELL'}` : 'NOT READY';
  const rows = findings.flatMap(({ severity, summary, advice, runbookSection, requestIds }) => [
    [severity === 'bad' ? 'BAD' : severity, `${summary}. ${advice} (runbook ${runbookSection})`],
    ...requestIds.slice(0, maxRequestIds).map((id) => ['', `request ${id}`]),
    ...(requestIds.length > maxRequestIds
      ? [['', `and ${requestIds.length - maxRequestIds} more requests: see --json`]]
      : []),
  ]);
  // Without the line of the headings.
  const lines = table(['', ''], rows).slice(1);
  return [`${state}: ${origin} at ${at}`, ...lines.map((line) => `  ${line}`)];
}

function environments({ environments: list }: Status): Section {
  return {
    title: 'Environments (last minute)',
    head: ['NAME', 'GATEWAY', 'IN FLIGHT', 'REQUESTS/S', 'FAILED', '403', 'P50', 'P99', 'CLOCK SKEW'],
    rows: list.map(({ name, gatewayHost, inFlight, maxInFlight, latency, ...environment }) => [
      name,
      gatewayHost,
      `${inFlight} of ${maxInFlight}`,
      environment.requestsPerSecond.toFixed(1),
      shareText(environment.failedShare),
      shareText(environment.rejectedShare),
      latency === null ? '-' : duration(latency.p50),
      latency === null ? '-' : duration(latency.p99),
      environment.clockSkew === null ? '-' : `${environment.clockSkew.toFixed(1)} s`,
    ]),
    empty: 'none',
  };
}

function shareText(share: number | null): string {
  return share === null ? '-' : `${(share * 100).toFixed(1)} %`;
}

function keys({ keys: { total, list } }: Status, now: number): Section {
  return {
    title: list.length < total ? `Keys (the last used ${list.length} of ${total})` : 'Keys',
    head: ['LOGIN', 'KIND', 'VERSION', 'STATE', 'AGE', 'FINGERPRINT', 'NOTES'],
    rows: list.flatMap((key) => keyRows(key, now)),
    empty: 'none in use',
  };
}

function callers({ callers: list }: Status, now: number): Section {
  return {
    title: 'Callers (since the start)',
    head: ['NAME', 'REQUESTS', 'DENIED', 'LAST SEEN'],
    rows: list.map(({ name, requests, denied, lastSeenAt }) => [
      name,
      String(requests),
      String(denied),
      lastSeenAt === null ? 'never' : `${since(lastSeenAt, now)} ago`,
    ]),
    empty: 'none',
  };
}

function failedRequests({ failures }: Status, now: number, shown: number): Section {
  const more = failures.length > shown;
  return {
    title: `Failed requests${more ? ` (the last ${shown} of ${failures.length}; --failures N shows more)` : ''}`,
    head: ['AGE', 'STATUS', 'OUTCOME', 'OPERATION', 'LOGIN', 'CALLER', 'CAUSE'],
    rows: failures
      .slice(0, shown)
      .map((failure) => [
        since(failure.at, now),
        failure.status === null ? 'none' : String(failure.status),
        failure.outcome,
        operationOf(failure),
        failure.login ?? '-',
        failure.caller ?? '-',
        causeOf(failure),
      ]),
    empty: 'none',
  };
}

function operationOf({ environment, operation }: FailedRequest): string {
  return environment === null ? '-' : `${environment}/${operation ?? '-'}`;
}

function causeOf({ cause, runbookSection, requestId }: FailedRequest): string {
  return [cause, ...(runbookSection === null ? [] : [`(runbook ${runbookSection})`]), requestId].join(' ');
}

function certificates({ certificates: list }: Status, now: number): Section {
  return {
    title: 'Certificates',
    head: ['NAME', 'ENVIRONMENT', 'EXPIRES', 'VALID'],
    rows: list.map(({ name, environment, from, until: end }) => [
      name,
      environment ?? '-',
      until(end, now),
      `${from} to ${end}`,
    ]),
    empty: 'none',
  };
}

const reloadAdvice =
  '  The last reload failed or requires a restart: read the log, correct the file, then reload or restart.';

function processLines({ keySource, process, config, runbookUrl }: Status, now: number): string[] {
  const { type, up, since: changedAt, problem, tokenExpiresAt } = keySource;
  const state = up === null ? 'not read yet' : up ? 'up' : 'DOWN';
  const parts = [
    `${type}, ${state}${changedAt === null ? '' : ` for ${since(changedAt, now)}`}`,
    ...(problem === null ? [] : [problem]),
    ...(tokenExpiresAt === null ? [] : [`token expires ${until(tokenExpiresAt, now)}`]),
  ];
  return [
    `Key source:     ${parts.join('; ')}`,
    `Process:        version ${process.version}, Node ${process.node}, up for ${span(process.uptime)}`,
    `Configuration:  loaded ${since(config.loadedAt, now)} ago, SHA-256 ${config.digest}`,
    ...(config.reloadFailed ? [reloadAdvice] : []),
    ...(runbookUrl === null ? [] : [`Runbook:        ${runbookUrl}`]),
  ];
}
