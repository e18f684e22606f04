import type { KeyState } from '../../keys/key-state.ts';
import { relative, since } from '../../observability/status/format.ts';
import { nextRead } from '../../observability/status/key-progress.ts';
import type { KeyStatus } from '../../observability/status/schema.ts';

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
export function keyRows(key: KeyStatus, now: string): string[][] {
  const { environment, login, kind, newestVersion, missingSince } = key;
  if (missingSince !== null && key.versions.length === 0) {
    const note = `MISSING in the key source for ${since(now, missingSince)}`;
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
      createdAt === null ? '-' : since(now, createdAt),
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
