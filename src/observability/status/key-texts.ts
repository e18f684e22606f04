import type { KeyState } from '../../keys/key-state.ts';
import type { KeyStatus } from './facts.ts';
import type { Severity } from './thresholds.ts';

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

export function kindName(kind: KeyStatus['kind']): string {
  return kind === 'control_key' ? 'Control key' : 'RSA key';
}

/** The one name of a version, with the number that log, metrics and commands have. In a directory that is a time. */
export function versionName(version: number): string {
  return `version ${version}`;
}

/** Whether its newest version signs, accepted by the gateway as far as known, and the key source still has it. */
export function isSettled({ versions: [newest], staleSince, missingSince }: KeyStatus): boolean {
  return newest?.state === 'in-use' && staleSince === null && missingSince === null;
}
