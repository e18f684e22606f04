import type { KeyStatus } from '../schema.ts';
import { type Content, html } from './html.ts';
import type { Tone } from './parts.ts';

/** What there is to say about a key beyond the states of its versions, and what to do. */
export interface KeyProgress {
  readonly tone: Tone;
  readonly title: string;
  readonly text: Content;
}

/** The most serious first; none while the newest version signs. */
export function keyProgress(key: KeyStatus): KeyProgress[] {
  return [noUsableVersion(key), gatewayRejects(key), rotation(key), unusable(key)].filter(
    (one) => one !== undefined,
  );
}

type Progress = KeyProgress | undefined;

const stateOf = (key: KeyStatus, version: number | null) =>
  key.versions.find((one) => one.version === version)?.state;

function noUsableVersion({ signingVersion, newestVersion }: KeyStatus): Progress {
  if (signingVersion !== null) return undefined;
  const text = `Requests that need this key fail. Store a usable key after version ${newestVersion} in the key source.`;
  return { tone: 'bad', title: 'No version can sign', text };
}

function gatewayRejects(key: KeyStatus): Progress {
  const { signingVersion } = key;
  if (signingVersion === null || stateOf(key, signingVersion) !== 'rejected') return undefined;
  const text = 'If the gateway has a new key, store it in the key source: the next 403 reads it.';
  return { tone: 'bad', title: `The gateway rejects version ${signingVersion}`, text };
}

function rotation(key: KeyStatus): Progress {
  const waiting = key.versions.find(({ state }) => state === 'waiting');
  if (waiting === undefined || key.signingVersion === null) return undefined;
  const text = html`Version ${key.signingVersion} signs until then. Register version ${waiting.version} at the gateway; <code>countersign keys verify</code> shows when it is accepted.`;
  return { tone: 'info', title: `Version ${waiting.version} is waiting for the gateway`, text };
}

function unusable({ versions, signingVersion }: KeyStatus): Progress {
  const broken = versions.find(({ state }) => state === 'unusable');
  if (broken === undefined || signingVersion === null) return undefined;
  const text = `${sentence(broken.problem ?? 'It cannot be used')} Store a correct key as a new version.`;
  return { tone: 'warn', title: `Version ${broken.version} cannot be used`, text };
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`;
}
