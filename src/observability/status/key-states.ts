import type { KeyState } from '../../keys/key-state.ts';
import type { Tone } from './page/parts.ts';

/** How the state of a key version is shown: with a title in a color on the status page, with a text in a terminal. */
export const keyStates: Readonly<
  Record<KeyState, { readonly tone: Tone; readonly title: string; readonly text: string }>
> = {
  'in-use': { tone: 'ok', title: 'In use', text: 'in use' },
  waiting: { tone: 'info', title: 'Waiting for the gateway', text: 'waiting' },
  rejected: { tone: 'bad', title: 'Rejected by the gateway', text: 'rejected' },
  replaced: { tone: 'idle', title: 'Replaced', text: 'replaced' },
  unusable: { tone: 'warn', title: 'Unusable', text: 'unusable' },
};
