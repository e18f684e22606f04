import type { KeyState } from '../../keys/key-state.ts';
import type { KeyStatus, StatusFacts } from './facts.ts';
import { clockText, relative, secondsBetween } from './format.ts';
import type { Severity } from './thresholds.ts';
import { isNoKey } from './thresholds.ts';

/** How the state of a key version is shown: with a title in a color on the status page, with a text in a terminal. */
export const keyStates: Readonly<
  Record<KeyState, { readonly tone: Severity | 'ok' | 'idle'; readonly title: string; readonly text: string }>
> = {
  'in-use': { tone: 'ok', title: 'In use', text: 'in use' },
  waiting: { tone: 'info', title: 'Waiting for the gateway', text: 'waiting' },
  rejected: { tone: 'bad', title: 'Rejected by the gateway', text: 'rejected' },
  replaced: { tone: 'idle', title: 'Replaced', text: 'replaced' },
  unusable: { tone: 'warn', title: 'Unusable', text: 'unusable' },
};

export type ProgressCode = 'key-missing' | 'key-unusable' | 'key-rejected' | 'key-waiting';

/** What there is to say about a key beyond the states of its versions, and what to do. */
export interface KeyProgress {
  readonly code: ProgressCode;
  readonly severity: Severity;
  readonly title: string;
  readonly advice: string;
}

/** Where the keys come from, and when the status was put together. */
export interface KeyOrigin {
  readonly now: string;
  readonly type: StatusFacts['keySource']['type'];
  /** Environments in which a rejection says nothing about a key. */
  readonly notAboutKeys: ReadonlySet<string>;
}

export function originOf({ at, keySource: { type }, environments }: StatusFacts): KeyOrigin {
  const notAboutKeys = new Set(environments.filter(isNoKey).map(({ name }) => name));
  return { now: at, type, notAboutKeys };
}

export function kindName(kind: KeyStatus['kind']): string {
  return kind === 'control_key' ? 'Control key' : 'RSA key';
}

export function keyName({ kind, login, environment }: KeyStatus): string {
  return `${kindName(kind)} of ${login} in ${environment}`;
}

/** `v3`. In a directory a version is the time in seconds at which a file changed: shown as a time. */
export function versionLabel({ now, type }: KeyOrigin, version: number): string {
  const changed = new Date(version * 1000);
  const isTime = type === 'directory' && !Number.isNaN(changed.valueOf());
  return isTime ? clockText(now, changed.toISOString()) : `v${version}`;
}

/** The same within a sentence. */
function versionName(origin: KeyOrigin, version: number): string {
  const label = versionLabel(origin, version);
  return label === `v${version}` ? `version ${version}` : `the key of ${label}`;
}

/** The most serious first; none while the newest version signs. */
export function keyProgress(key: KeyStatus, origin: KeyOrigin): KeyProgress[] {
  const { environment, signingVersion, versions, missingSince } = key;
  if (missingSince !== null) return [missing(missingSince, key, origin)];
  if (signingVersion === null) return [noneUsable(key, origin)];
  const signing = versionName(origin, signingVersion);
  // An older version does not matter any more.
  const newer = (state: string) =>
    versions.find((one) => one.state === state && one.version > signingVersion);
  const rejected = versions.some((one) => one.version === signingVersion && one.state === 'rejected');
  const [waiting, unusable] = [newer('waiting'), newer('unusable')];
  return [
    ...(rejected && !origin.notAboutKeys.has(environment) ? [gatewayRejects(signing)] : []),
    ...(unusable ? [cannotBeUsed(versionName(origin, unusable.version), unusable)] : []),
    ...(waiting ? [rotation(signing, versionName(origin, waiting.version), key, origin)] : []),
  ];
}

function missing(missingSince: string, { signingVersion }: KeyStatus, origin: KeyOrigin): KeyProgress {
  const isSigned = signingVersion !== null;
  const effect = isSigned
    ? `${capitalized(versionName(origin, signingVersion))} still signs, until \`keys.rotationGracePeriod\` has passed, or longer if the gateway accepted it last.`
    : 'Requests that need it fail.';
  const advice = `${effect} Store it in the key source again; Countersign reads it within a minute.`;
  const title = `Missing in the key source since ${clockText(origin.now, missingSince)}`;
  return { code: 'key-missing', severity: isSigned ? 'warn' : 'bad', title, advice };
}

function noneUsable({ newestVersion, versions }: KeyStatus, origin: KeyOrigin): KeyProgress {
  const problems = versions.flatMap(({ problem }) => (problem === null ? [] : sentence(problem)));
  const newest = versionName(origin, newestVersion);
  const advice = `${[...problems.slice(0, 1), 'Requests that need this key fail.'].join(' ')} \
Store a usable key after ${newest} in the key source.`;
  return { code: 'key-unusable', severity: 'bad', title: 'No version can sign', advice };
}

function gatewayRejects(signing: string): KeyProgress {
  const advice =
    'If the gateway has a new key, store it in the key source: Countersign looks for it each second while there are requests.';
  return { code: 'key-rejected', severity: 'bad', title: `The gateway rejects ${signing}`, advice };
}

function rotation(signing: string, waiting: string, { kind }: KeyStatus, { type }: KeyOrigin): KeyProgress {
  const todo =
    kind === 'private_key'
      ? `Register the public key of ${waiting} at the gateway`
      : `The gateway makes control keys: check that ${waiting} is the one it sent`;
  const command = type === 'vault' ? '; `countersign keys verify` shows when it is accepted' : '';
  const advice = `${capitalized(signing)} signs until then. ${todo}${command}.`;
  const title = `${capitalized(waiting)} is waiting for the gateway`;
  return { code: 'key-waiting', severity: 'info', title, advice };
}

function cannotBeUsed(version: string, { problem }: KeyStatus['versions'][number]): KeyProgress {
  const advice = `${problem === null ? '' : `${sentence(problem)} `}Store a correct key as a new version.`;
  return { code: 'key-unusable', severity: 'warn', title: `${capitalized(version)} cannot be used`, advice };
}

/** When the key source is read again. */
export function nextRead(now: string, nextRefreshAt: string | null): string {
  const isDue = nextRefreshAt === null || secondsBetween(now, nextRefreshAt) < 1;
  return isDue ? 'next with a request' : `next ${relative(now, nextRefreshAt)}`;
}

function sentence(text: string): string {
  return `${capitalized(text).replace(/\.$/, '')}.`;
}

function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
