import type { KeyState } from '../../../keys/key-state.ts';
import type { KeyStatus } from '../facts.ts';
import { since, whole } from '../format.ts';
import {
  isSettled,
  type KeyOrigin,
  keyStates,
  kindName,
  nextRead,
  originOf,
  versionName,
} from '../key-texts.ts';
import type { Status } from '../schema.ts';
import { type Html, html, known, listingSection, none, pill, relativeTime, withDetail } from './parts.ts';

interface Row {
  readonly key: KeyStatus;
  readonly origin: KeyOrigin;
}

/** Those that are not settled, then by name: the order of their last use would change with each update. */
export function keys(status: Status): Html {
  const { total, list } = status.keys;
  const origin = originOf(status);
  const rows: Row[] = list
    .toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
    .map((key) => ({ key, origin }));
  return listingSection(rows, {
    id: 'keys',
    title: 'Keys in use',
    hint: total > list.length ? `The ${whole(list.length)} last used of ${whole(total)}` : undefined,
    noun: 'key',
    empty: 'No key was needed yet. Keys are read from the key source with the first request of a login.',
    columns: [
      ['Login', ({ key }) => withDetail(key.login, key.environment)],
      ['Kind', ({ key }) => kindName(key.kind)],
      ['Signs', signs],
      ['Versions, newest first', versions],
      ['Key source read', read],
    ],
    tone: ({ key }) => (isSettled(key) ? 'ok' : 'warn'),
  });
}

function nameOf({ environment, login, kind }: KeyStatus): string {
  return [environment, login, kind].join(' ');
}

function signs({ key: { signingVersion, newestVersion } }: Row): Html {
  const signing = known(signingVersion, 'none', (version) => html`<b>${versionName(version)}</b>`);
  const newest = `newest is ${versionName(newestVersion)}`;
  return withDetail(signing, signingVersion === newestVersion ? undefined : newest);
}

function versions(row: Row): Html {
  if (row.key.versions.length === 0) return none('none left');
  return html`<ol class="versions">${row.key.versions.map((one) => versionItem(row, one))}</ol>`;
}

function versionItem(
  { key: { signingVersion: signing }, origin }: Row,
  { version, state, verdict, createdAt, fingerprint, transitKey, problem }: KeyStatus['versions'][number],
): Html {
  const age = known(
    createdAt,
    'age unknown',
    (time) => html`<time datetime="${time}" title="Created ${time}">${since(origin.now, time)} old</time>`,
  );
  const facts =
    problem === null ? fingerprintCode(fingerprint) : html`<span class="detail">${problem}</span>`;
  const inVault =
    transitKey === null
      ? undefined
      : html` <span title="Transit key ${transitKey}: it never leaves Vault">in Vault</span>`;
  const title = verdict === null ? undefined : html` title="last ${verdict} by the gateway"`;
  return html`<li class="${state}"><b${title}>${versionName(version)}</b> ${statePill(version, state, signing)} ${age} ${facts}${inVault}</li>\n`;
}

/** Enough digits to compare by eye. */
function fingerprintCode(fingerprint: string | null): Html | undefined {
  if (fingerprint === null) return undefined;
  const shown = fingerprint.length > 16 ? `${fingerprint.slice(0, 16)}\u2026` : fingerprint;
  return html`<code title="Fingerprint of the key: ${fingerprint}">${shown}</code>`;
}

/** After a rotation the gateway rejects the older version, as it should. */
function statePill(version: number, state: KeyState, signing: number | null): Html {
  const isReplaced = state === 'rejected' && version < (signing ?? 0);
  const { tone, title } = keyStates[state];
  return isReplaced ? pill('idle', 'No longer accepted') : pill(tone, title);
}

function read({ key: { readAt, nextRefreshAt, staleSince, readProblem }, origin: { now } }: Row): Html {
  const next = nextRead(now, nextRefreshAt);
  const stale =
    staleSince === null
      ? undefined
      : html` ${pill('warn', `Stale for ${since(now, staleSince)}`)} ${readProblem ?? undefined}`;
  return html`${withDetail(html`${relativeTime(now, readAt)};`, next)}${stale}`;
}
