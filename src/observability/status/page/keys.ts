import type { KeyState, KeyStatus, Status } from '../schema.ts';
import { kindName } from './findings.ts';
import { relative, relativeTime, secondsBetween, span, whole } from './format.ts';
import { type Content, type Html, html } from './html.ts';
import { keyProgress } from './key-progress.ts';
import { type Column, empty, none, pill, section, type Tone, table, withDetail } from './parts.ts';

/** With the time at which the status was put together. */
type Row = KeyStatus & { readonly now: string };

const states: Readonly<Record<KeyState, readonly [tone: Tone, text: string]>> = {
  'in-use': ['ok', 'In use'],
  waiting: ['info', 'Waiting for the gateway'],
  rejected: ['bad', 'Rejected by the gateway'],
  replaced: ['idle', 'Replaced'],
  unusable: ['warn', 'Unusable'],
};

const columns: readonly Column<Row>[] = [
  { heading: 'Login', cell: ({ login, environment }) => withDetail(login, environment) },
  { heading: 'Kind', cell: ({ kind }) => kindName(kind) },
  { heading: 'Signs', cell: signs },
  { heading: 'Versions, newest first', cell: versions },
  { heading: 'Key source read', cell: read },
];

/** Keys with something to say come first, so that a rotation is seen among many. */
export function keys({ at, keys: { total, list } }: Status): Html {
  const rows = list.map((key) => ({ ...key, now: at }));
  const [special, normal] = [true, false].map((wanted) =>
    rows.filter((key) => keyProgress(key).length > 0 === wanted),
  );
  const hidden = total - list.length;
  const hint = hidden > 0 ? `The ${whole(list.length)} last used of ${whole(total)}` : undefined;
  return section(
    { id: 'keys', title: 'Keys in use', hint },
    list.length === 0
      ? empty('No key was needed yet. Keys are read from the key source with the first request of a login.')
      : table('keys', columns, [...(special ?? []), ...(normal ?? [])]),
  );
}

function signs({ signingVersion, newestVersion }: Row): Html {
  const signing = signingVersion === null ? none('none') : html`<b>v${signingVersion}</b>`;
  return withDetail(signing, signingVersion === newestVersion ? undefined : `newest is v${newestVersion}`);
}

function versions(row: Row): Content {
  return [
    html`<ol class="versions">${row.versions.map((one) => version(row.now, one))}</ol>`,
    ...keyProgress(row).map(
      ({ tone, title, text }) => html`<p class="note ${tone}"><strong>${title}.</strong> ${text}</p>`,
    ),
  ];
}

function version(now: string, one: KeyStatus['versions'][number]): Html {
  const [tone, text] = states[one.state];
  const created =
    one.createdAt === null
      ? none('age unknown')
      : html`<time datetime="${one.createdAt}" title="Created ${one.createdAt}">${span(Math.max(0, secondsBetween(one.createdAt, now)))} old</time>`;
  const fingerprint =
    one.fingerprint === null
      ? undefined
      : html`<code title="SHA-256 of the public key: ${one.fingerprint}">${one.fingerprint.slice(0, 16)}\u2026</code>`;
  return html`<li class="${one.state}"><b>v${one.version}</b> ${pill(tone, text)} ${created} ${fingerprint}</li>\n`;
}

function read({ now, readAt, nextRefreshAt, staleSince }: Row): Html {
  const next =
    nextRefreshAt === null ? 'again with the next request' : `again ${relative(now, nextRefreshAt)}`;
  return html`${withDetail(relativeTime(now, readAt), next)}${
    staleSince === null
      ? undefined
      : html` ${pill('warn', `Stale for ${span(Math.max(0, secondsBetween(staleSince, now)))}`)}`
  }`;
}
