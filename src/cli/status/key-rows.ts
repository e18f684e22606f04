import type { KeyState } from '../../keys/key-state.ts';
import type { KeyStatus } from '../../observability/status/schema.ts';
import { since, until } from './texts.ts';

/** Enough digits to compare by eye. */
const fingerprintLength = 16;

const states: Readonly<Record<KeyState, string>> = {
  'in-use': 'in use',
  waiting: 'waiting',
  rejected: 'rejected',
  replaced: 'replaced',
  unusable: 'UNUSABLE',
};

/** One row for each version; the first also names the key. */
export function keyRows(key: KeyStatus, now: number): string[][] {
  const { environment, login, kind, newestVersion, missingSince } = key;
  if (missingSince !== null && key.versions.length === 0) {
    const note = `MISSING in the key source for ${since(missingSince, now)}`;
    return [[`${environment}/${login}`, kind, String(newestVersion), 'MISSING', '-', '-', note]];
  }
  return key.versions.map(({ version, state, createdAt, fingerprint, problem }, index) => {
    const isFirst = index === 0;
    const notes = [...(problem === null ? [] : [problem]), ...(isFirst ? keyNotes(key, now) : [])];
    return [
      isFirst ? `${key.environment}/${key.login}` : '',
      isFirst ? key.kind : '',
      String(version),
      states[state],
      since(createdAt, now),
      fingerprint?.slice(0, fingerprintLength) ?? '-',
      notes.join('; '),
    ];
  });
}

/** What is known of all versions together. */
function keyNotes(key: KeyStatus, now: number): string[] {
  const { signingVersion, staleSince, readProblem, missingSince, readAt, nextRefreshAt } = key;
  return [
    ...(signingVersion === null ? ['NO USABLE VERSION'] : []),
    ...(missingSince === null ? [] : [`MISSING in the key source for ${since(missingSince, now)}`]),
    ...(staleSince === null ? [] : [`STALE for ${since(staleSince, now)}`]),
    ...(readProblem === null ? [] : [readProblem]),
    `read ${since(readAt, now)} ago, next ${nextRefreshAt === null ? 'with the next request' : until(nextRefreshAt, now)}`,
  ];
}
