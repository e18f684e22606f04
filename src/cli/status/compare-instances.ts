import type { Severity } from '../../observability/status/finding-codes.ts';
import { counted, secondsBetween, skew, span } from '../../observability/status/format.ts';
import type { KeyStatus, Status } from '../../observability/status/schema.ts';

/** What came of reading the status of one instance. */
export type InstanceReading = { readonly address: string } & (
  | {
      readonly status: Status;
      /** Seconds that its clock is ahead of ours, and how much of that may be the network. */
      readonly clockAhead: number;
      readonly uncertainty: number;
    }
  | { readonly problem: string }
);

export type Instance = ReturnType<typeof instanceOf>;
export type KeyOnInstances = ReturnType<typeof keyOf>;
/** All instances at one moment. */
export type AllInstances = ReturnType<typeof compareInstances>;

/** What a look at all instances shows that none of them can know. */
interface SharedFinding {
  readonly severity: Severity;
  /** As in docs/status.md. */
  readonly code: string;
  readonly summary: string;
  readonly advice: string;
  readonly instances: readonly string[];
}

/** Seconds by which clocks may differ: the network and a busy machine. */
const maxClockDifference = 5;
/** Seconds after which an instance should have read a new version of a key in use: several times the default `keys.cache.ttl`. */
const readWithin = 300;

/** Puts the readings of all instances together. @param at ISO 8601 */
export function compareInstances(readings: readonly InstanceReading[], at: string) {
  const instances = readings.map(instanceOf);
  const keys = keysOf(readings);
  const findings = [
    ...missing(instances),
    ...notReady(instances),
    ...notWell(instances),
    ...clocks(readings),
    ...keys.flatMap((key) => notRead(key, readings)),
    ...differing(instances),
    ...keys.flatMap(signingDiffers),
    ...notListed(instances),
  ];
  /** No instance is without a status or not ready, and no finding is `bad`. */
  const well = findings.every(({ severity }) => severity !== 'bad');
  return { at, well, findings, instances, keys };
}

/** All but the address is null if there is no status, and `problem` says why. */
function instanceOf(reading: InstanceReading) {
  const status = 'status' in reading ? reading.status : null;
  const environments = status?.environments ?? [];
  const requests = sum(environments.map(({ requestsPerSecond }) => requestsPerSecond));
  const failed = sum(environments.map((one) => one.requestsPerSecond * (one.failedShare ?? 0)));
  return {
    address: reading.address,
    problem: 'problem' in reading ? reading.problem : null,
    version: status && status.process.version,
    ready: status && status.health.ready,
    well: status && status.well,
    /** Over the last minute, all environments. */
    requestsPerSecond: status && requests,
    /** Of these, the share that failed because of the gateway or Countersign. */
    failedShare: requests === 0 ? null : failed / requests,
    /** Seconds that its clock is ahead of that of this command. */
    clockAhead: 'clockAhead' in reading ? reading.clockAhead : null,
    configDigest: status && status.config.digest,
    /** Keys in use that its status does not list: it lists those used last. */
    keysNotListed: status && status.keys.total - status.keys.list.length,
    /** As in its status, the most serious first. */
    findings: status?.findings ?? [],
  };
}

function withStatus(readings: readonly InstanceReading[]) {
  return readings.filter((one) => 'status' in one);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** Keys that are not the same on all instances first. */
function keysOf(readings: readonly InstanceReading[]): KeyOnInstances[] {
  const rows = withStatus(readings).flatMap(({ address, status }) =>
    status.keys.list.map((key) => ({ address, key })),
  );
  const byKey = Map.groupBy(rows, ({ key }) => `${key.environment}/${key.login} ${key.kind}`);
  const keys = Array.from(byKey.values(), keyOf);
  return [...keys.filter(isDifferent), ...keys.filter((key) => !isDifferent(key))];
}

interface KeyRow {
  readonly address: string;
  readonly key: KeyStatus;
}

function keyOf(rows: readonly KeyRow[]) {
  const [first] = rows;
  if (first === undefined) throw new TypeError('a key without a row');
  const { environment, login, kind } = first.key;
  const numbers = new Set(rows.flatMap(({ key }) => key.versions.map(({ version }) => version)));
  /** Newest first. */
  const versions = [...numbers].toSorted((a, b) => b - a).map((version) => versionOf(version, rows));
  /** Instances that have the key in their cache. */
  const usedOn = addressesOf(rows);
  return { environment, login, kind, usedOn, versions };
}

/** What the instances know of one version of a key. Lists hold addresses. */
function versionOf(version: number, rows: readonly KeyRow[]) {
  const known = rows.flatMap(({ address, key }) => {
    const found = key.versions.find((one) => one.version === version);
    return found === undefined ? [] : [{ address, ...found }];
  });
  return {
    version,
    createdAt: known.find(({ createdAt }) => createdAt !== null)?.createdAt ?? null,
    readBy: addressesOf(known),
    signsOn: addressesOf(rows.filter(({ key }) => key.signingVersion === version)),
    acceptedOn: addressesOf(known.filter(({ verdict }) => verdict === 'accepted')),
    rejectedOn: addressesOf(known.filter(({ verdict }) => verdict === 'rejected')),
  };
}

function isDifferent({ usedOn, versions }: KeyOnInstances): boolean {
  const [newest] = versions;
  const lags = newest !== undefined && newest.readBy.length < usedOn.length;
  return lags || !versions.some(({ signsOn }) => signsOn.length === usedOn.length);
}

/** A finding about those in the list, if there are any. */
function findingOf(
  list: readonly { readonly address: string }[],
  finding: Omit<SharedFinding, 'instances'>,
): SharedFinding[] {
  return list.length === 0 ? [] : [{ ...finding, instances: addressesOf(list) }];
}

function missing(instances: readonly Instance[]): SharedFinding[] {
  const without = instances.filter(({ problem }) => problem !== null);
  return findingOf(without, {
    severity: 'bad',
    code: 'instance-without-status',
    summary: `${without.length} of ${counted(instances.length, 'instance')} gave no status`,
    advice: 'What they do is not known. See their rows for the cause.',
  });
}

function notReady(instances: readonly Instance[]): SharedFinding[] {
  const list = instances.filter(({ ready }) => ready === false);
  return findingOf(list, {
    severity: 'bad',
    code: 'instance-not-ready',
    summary: `${counted(list.length, 'instance')} not ready`,
    advice: 'They get no requests from a load balancer. See their rows, or the status of one with --url.',
  });
}

/** Instances that share their most serious problem are one finding. */
function notWell(instances: readonly Instance[]): SharedFinding[] {
  const list = instances.filter(({ ready, well }) => ready === true && well === false);
  const groups = Map.groupBy(list, ({ findings: [worst] }) => worst?.summary ?? 'Not well');
  return Array.from(groups).flatMap(([summary, group]) =>
    findingOf(group, {
      severity: 'bad',
      code: 'instance-not-well',
      summary: `${summary}, on ${counted(group.length, 'instance')}`,
      advice: group[0]?.findings[0]?.advice ?? '',
    }),
  );
}

/** Clocks that differ from most. One clock that is wrong makes the gateway reject what this instance signs. */
function clocks(readings: readonly InstanceReading[]): SharedFinding[] {
  const known = withStatus(readings);
  const sorted = known.map(({ clockAhead }) => clockAhead).toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const wrong = known.filter(
    ({ clockAhead, uncertainty }) => Math.abs(clockAhead - median) > maxClockDifference + uncertainty,
  );
  return wrong.flatMap((one) =>
    findingOf([one], {
      severity: 'warn',
      code: 'clocks-differ',
      summary: `The clock of ${one.address} differs from that of most instances by ${skew(one.clockAhead - median).replace('\u2212', '-')}`,
      advice: 'The gateway may reject what it signs. Check the time service of its node.',
    }),
  );
}

/** An instance that uses a key, and should have read its newest version by now. */
function notRead(
  { environment, login, kind, usedOn, versions: [newest] }: KeyOnInstances,
  readings: readonly InstanceReading[],
): SharedFinding[] {
  if (newest === undefined || newest.createdAt === null) return [];
  const { createdAt, readBy } = newest;
  const late = withStatus(readings)
    .map(({ address, status }) => ({ address, age: secondsBetween(createdAt, status.at) }))
    .filter(({ address, age }) => age > readWithin && usedOn.includes(address) && !readBy.includes(address));
  return findingOf(late, {
    severity: 'warn',
    code: 'key-not-read',
    summary: `${counted(late.length, 'instance')} did not read version ${newest.version} of the ${kind} of ${environment}/${login}, which is ${span(late[0]?.age ?? 0)} old`,
    advice:
      'Keys are read again each keys.cache.ttl, 60s by default, or with the next request if there was none for 10 minutes. Do they read from the same place, and is it up for them?',
  });
}

/** Versions of Countersign, and of its configuration file. */
function differing(instances: readonly Instance[]): SharedFinding[] {
  return [
    ...groupsDiffer(instances, 'version', {
      code: 'mixed-versions',
      summary: 'Instances have different versions of Countersign',
      advice: 'Normal during an upgrade only.',
    }),
    ...groupsDiffer(instances, 'configDigest', {
      code: 'configurations-differ',
      summary: 'Instances have different configuration files in effect',
      advice:
        'Normal during a rollout only. An instance whose reload failed keeps the previous file: see its findings.',
    }),
  ];
}

function groupsDiffer(
  instances: readonly Instance[],
  by: 'version' | 'configDigest',
  { code, summary, advice }: Pick<SharedFinding, 'code' | 'summary' | 'advice'>,
): SharedFinding[] {
  const known = instances.filter((one) => one[by] !== null);
  const groups = [...Map.groupBy(known, (one) => String(one[by]))];
  const bySize = groups.toSorted(([, a], [, b]) => b.length - a.length);
  const counts = bySize.map(([name, { length }]) => `${name.slice(0, 12)} on ${length}`);
  const fewer = bySize.slice(1).flatMap(([, group]) => group);
  return findingOf(fewer, { severity: 'warn', code, summary: `${summary}: ${counts.join(', ')}`, advice });
}

function signingDiffers({ environment, login, kind, versions }: KeyOnInstances): SharedFinding[] {
  const signing = versions.filter(({ signsOn }) => signsOn.length > 0);
  if (signing.length < 2) return [];
  const parts = signing.map(({ version, signsOn }) => `version ${version} on ${signsOn.length}`);
  return [
    {
      severity: 'info',
      code: 'signing-differs',
      summary: `Instances sign with different versions of the ${kind} of ${environment}/${login}: ${parts.join(', ')}`,
      advice:
        'Normal during a rotation: each instance switches when the gateway accepts the new key from it.',
      instances: signing.slice(1).flatMap(({ signsOn }) => signsOn),
    },
  ];
}

/** What is missing in the table of keys may be in use there all the same. */
function notListed(instances: readonly Instance[]): SharedFinding[] {
  const list = instances.filter(({ keysNotListed }) => (keysNotListed ?? 0) > 0);
  return findingOf(list, {
    severity: 'info',
    code: 'keys-not-listed',
    summary: `${counted(list.length, 'instance')} ${list.length === 1 ? 'uses' : 'use'} more keys than a status lists`,
    advice: 'The table counts only those that each used last. The metrics have all.',
  });
}

function addressesOf(list: readonly { readonly address: string }[]): string[] {
  return list.map(({ address }) => address);
}
