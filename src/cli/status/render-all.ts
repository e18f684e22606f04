import { counted, percent, rate, since } from '../../observability/status/format.ts';
import { printable } from '../../util/text.ts';
import { table } from '../shared/io.ts';
import type { AllInstances, Instance, KeyOnInstances } from './instances.ts';

/** Of a list of addresses. */
const maxAddresses = 5;
/** Keys that are shown; those that differ come first. */
const maxKeys = 50;

/** All instances and their keys as lines of plain ASCII. */
export function allLines(all: AllInstances, width: number): string[] {
  const { instances, findings, keys, at } = all;
  return [
    headline(all),
    ...findingLines(findings, width),
    '',
    'Instances (last minute)',
    ...indented(table(instanceHead, instances.map(instanceRow), width - 2)),
    '',
    ...keyLines(keys, instances, at, width),
  ].map(printable);
}

function headline({ well, instances, at }: AllInstances): string {
  const ready = instances.filter((one) => one.ready === true).length;
  const of = `${ready} of ${counted(instances.length, 'instance')} ready at ${at}`;
  return well ? `Well: ${of}` : `NOT WELL: ${of}`;
}

function findingLines(findings: AllInstances['findings'], width: number): string[] {
  const rows = findings.map(({ severity, summary, advice, instances }) => [
    severity === 'bad' ? 'BAD' : severity,
    `${summary}. ${advice} (${listed(instances)})`,
  ]);
  // Without the line of the headings.
  return indented(table(['', ''], rows, width - 2).slice(1));
}

const instanceHead = ['ADDRESS', 'VERSION', 'STATE', 'REQUESTS/S', 'FAILED', 'WORST FINDING'];

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
    failedShare === null ? '-' : percent(failedShare),
    worst === undefined ? 'none' : `${worst.severity}: ${worst.summary}`,
  ];
}

const keyHead = [
  'LOGIN',
  'KIND',
  'VERSION',
  'AGE',
  'READ BY',
  'SIGNS ON',
  'ACCEPTED ON',
  'REJECTED ON',
  'NOTES',
];

function keyLines(
  keys: readonly KeyOnInstances[],
  instances: readonly Instance[],
  now: string,
  width: number,
): string[] {
  if (keys.length === 0) return ['Keys: none in use'];
  const shown = keys.slice(0, maxKeys);
  const title =
    shown.length < keys.length ? `Keys (${shown.length} of ${keys.length}; --json has all)` : 'Keys';
  const rows = shown.flatMap((key) => keyRows(key, instances, now));
  return [title, ...indented(table(keyHead, rows, width - 2))];
}

/** One row for each version; the first also names the key. */
function keyRows(
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
      version.createdAt === null ? '-' : since(now, version.createdAt),
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

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}
