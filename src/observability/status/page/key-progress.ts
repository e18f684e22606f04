import type { KeyStatus, Status } from '../schema.ts';
import { clockText } from './format.ts';
import { type Content, html } from './html.ts';
import type { Tone } from './parts.ts';

/** What there is to say about a key beyond the states of its versions, and what to do. */
export interface KeyProgress {
  readonly kind: 'none-usable' | 'rejected' | 'waiting' | 'unusable';
  readonly tone: Tone;
  readonly title: string;
  readonly text: Content;
}

/** Where the keys come from, and when the status was put together. */
export interface KeyOrigin {
  readonly now: string;
  readonly type: Status['keySource']['type'];
}

export function originOf({ at, keySource: { type } }: Status): KeyOrigin {
  return { now: at, type };
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
  const { signingVersion, versions } = key;
  if (signingVersion === null) return [noneUsable(key, origin)];
  const signing = versionName(origin, signingVersion);
  // An older version does not matter any more.
  const newer = (state: string) =>
    versions.find((one) => one.state === state && one.version > signingVersion);
  const rejected = versions.some((one) => one.version === signingVersion && one.state === 'rejected');
  const [waiting, unusable] = [newer('waiting'), newer('unusable')];
  return [
    ...(rejected ? [gatewayRejects(signing)] : []),
    ...(waiting ? [rotation(signing, versionName(origin, waiting.version), key, origin)] : []),
    ...(unusable ? [cannotBeUsed(versionName(origin, unusable.version), unusable)] : []),
  ];
}

function noneUsable({ newestVersion, versions }: KeyStatus, origin: KeyOrigin): KeyProgress {
  const problems = versions.flatMap(({ problem }) => (problem === null ? [] : sentence(problem)));
  const newest = versionName(origin, newestVersion);
  const text = `${[...problems.slice(0, 1), 'Requests that need this key fail.'].join(' ')} \
Store a usable key after ${newest} in the key source.`;
  return { kind: 'none-usable', tone: 'bad', title: 'No version can sign', text };
}

function gatewayRejects(signing: string): KeyProgress {
  const text = 'If the gateway has a new key, store it in the key source: the next 403 reads it.';
  return { kind: 'rejected', tone: 'bad', title: `The gateway rejects ${signing}`, text };
}

function rotation(signing: string, waiting: string, { kind }: KeyStatus, { type }: KeyOrigin): KeyProgress {
  const todo =
    kind === 'private_key'
      ? `Register the public key of ${waiting} at the gateway`
      : `The gateway makes control keys: check that ${waiting} is the one it sent`;
  const command = html`; <code>countersign keys verify</code> shows when it is accepted`;
  const text = html`${capitalized(signing)} signs until then. ${todo}${type === 'vault' ? command : undefined}.`;
  const title = `${capitalized(waiting)} is waiting for the gateway`;
  return { kind: 'waiting', tone: 'info', title, text };
}

function cannotBeUsed(version: string, { problem }: KeyStatus['versions'][number]): KeyProgress {
  const text = `${problem === null ? '' : sentence(problem)} Store a correct key as a new version.`;
  return { kind: 'unusable', tone: 'warn', title: `${capitalized(version)} cannot be used`, text };
}

function sentence(text: string): string {
  return `${capitalized(text).replace(/\.$/, '')}.`;
}

export function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
