import type { KeyStatus } from '../facts.ts';
import { relative, secondsBetween, since, whole } from '../format.ts';
import { isSettled, keyStates, kindName, versionName } from '../key-texts.ts';
import type { Status } from '../schema.ts';
import { type Html, html, known, listingSection, none, pill, relativeTime, withDetail } from './parts.ts';

type Version = KeyStatus['versions'][number];

/** Those that are not settled, then by name: the order of their last use would change with each update. */
export function keys({ at, keys: { total, list } }: Status): Html {
  const rows = list.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  return listingSection(rows, {
    id: 'keys',
    title: 'Keys in use',
    hint: total > list.length ? `The ${whole(list.length)} last used of ${whole(total)}` : undefined,
    noun: 'key',
    empty: 'No key was needed yet. Keys are read from the key source with the first request of a login.',
    columns: [
      ['Login', ({ login, environment }) => withDetail(login, environment)],
      ['Kind', ({ kind }) => kindName(kind)],
      ['Signs', signs],
      ['Versions, newest first', (key) => versions(key, at)],
      ['Key source read', (key) => read(key, at)],
    ],
    tone: (key) => (isSettled(key) ? 'ok' : 'warn'),
  });
}

function nameOf({ environment, login, kind }: KeyStatus): string {
  return [environment, login, kind].join(' ');
}

function signs({ signingVersion, newestVersion }: KeyStatus): Html {
  const signing = known(signingVersion, 'none', (version) => html`<b>${versionName(version)}</b>`);
  const newest = `newest is ${versionName(newestVersion)}`;
  return withDetail(signing, signingVersion === newestVersion ? undefined : newest);
}

function versions({ versions: list, signingVersion }: KeyStatus, now: string): Html {
  if (list.length === 0) return none('none left');
  return html`<ol class="versions">${list.map((one) => versionItem(one, signingVersion, now))}</ol>`;
}

function versionItem(one: Version, signing: number | null, now: string): Html {
  const { version, state, verdict, createdAt, fingerprint, transitKey, problem } = one;
  const age = known(
    createdAt,
    'age unknown',
    (time) => html`<time datetime="${time}" title="Created ${time}">${since(now, time)} old</time>`,
  );
  const facts =
    problem === null ? fingerprintCode(fingerprint) : html`<span class="detail">${problem}</span>`;
  const inVault =
    transitKey === null
      ? undefined
      : html` <span title="Transit key ${transitKey}: it never leaves Vault">in Vault</span>`;
  const title = verdict === null ? undefined : html` title="last ${verdict} by the gateway"`;
  return html`<li class="${state}"><b${title}>${versionName(version)}</b> ${statePill(one, signing)} ${age} ${facts}${inVault}</li>\n`;
}

/** Enough digits to compare by eye. */
function fingerprintCode(fingerprint: string | null): Html | undefined {
  if (fingerprint === null) return undefined;
  const shown = fingerprint.length > 16 ? `${fingerprint.slice(0, 16)}\u2026` : fingerprint;
  return html`<code title="Fingerprint of the key: ${fingerprint}">${shown}</code>`;
}

/** After a rotation the gateway rejects the older version, as it should. */
function statePill({ version, state }: Version, signing: number | null): Html {
  if (state === 'rejected' && version < (signing ?? 0)) return pill('idle', 'No longer accepted');
  const { tone, title } = keyStates[state];
  return pill(tone, title);
}

function read({ readAt, nextRefreshAt, staleSince, readProblem }: KeyStatus, now: string): Html {
  const isDue = nextRefreshAt === null || secondsBetween(now, nextRefreshAt) < 1;
  const next = isDue ? 'next with a request' : `next ${relative(now, nextRefreshAt)}`;
  const stale =
    staleSince === null
      ? undefined
      : html` ${pill('warn', `Stale for ${since(now, staleSince)}`)} ${readProblem ?? undefined}`;
  return html`${withDetail(html`${relativeTime(now, readAt)};`, next)}${stale}`;
}
