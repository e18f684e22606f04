import type { KeyStatus, Status } from '../schema.ts';
import { counted, percent, secondsBetween, skew, span } from './format.ts';
import { type Content, html } from './html.ts';
import { type KeyProgress, keyProgress, originOf } from './key-progress.ts';
import { clockDifference, lifetime, rejections, saturation } from './limits.ts';
import type { Tone } from './parts.ts';

type Environment = Status['environments'][number];

/** Something to look at, with the section of the page that shows it. */
export interface Finding {
  readonly tone: Tone;
  readonly section: string;
  readonly title: string;
  /** What to do, or what it means. */
  readonly text: Content;
}

/** The most serious first. */
export function findings(status: Status): Finding[] {
  const all = [
    ...health(status),
    ...keySource(status),
    ...status.environments.flatMap((one) => environment(one, status)),
    ...keys(status),
    ...staleKeys(status),
    ...certificates(status),
    ...configuration(status),
  ];
  const order: readonly Tone[] = ['bad', 'warn', 'info'];
  return order.flatMap((tone) => all.filter((one) => one.tone === tone));
}

/** The codes of `/readyz` in words; src/observability/readiness.ts has the list. */
const healthTexts: ReadonlyMap<string, readonly [title: string, text: string]> = new Map([
  ['draining', ['Shutting down', 'Requests in flight are finished; new ones belong to another instance.']],
  [
    'key-source-never-reached',
    [
      'No keys yet',
      'The key source has not responded since the start. Check its address and the login to it.',
    ],
  ],
  [
    'audit-unavailable',
    [
      'Audit records cannot be written',
      'Nothing is sent without them. Check space and permissions of the audit file.',
    ],
  ],
  [
    'jwt-keys-unavailable',
    [
      'Keys of a JWT issuer are missing',
      'Callers with its tokens are rejected. Check the key set of each JWT issuer.',
    ],
  ],
  [
    'log-lines-dropped',
    ['Log lines were dropped', 'Requests are processed. Check where standard output goes.'],
  ],
  ['log-stalled', ['The log cannot be written', 'Requests are processed. Check where standard output goes.']],
]);

function health({ health: { reasons, warnings } }: Status): Finding[] {
  const finding = (tone: Tone) => (code: string) => {
    const [title, text] = healthTexts.get(code) ?? [code, 'See the section "Readiness" of the runbook.'];
    return { tone, section: 'instance', title, text };
  };
  return [...reasons.map(finding('bad')), ...warnings.map(finding('warn'))];
}

function keySource({ at, keySource: { type, up, since, problem, tokenExpiresAt } }: Status): Finding[] {
  const name = sourceName(type);
  const found: Finding[] = [];
  if (up === false) {
    const lasts = since === null ? '' : ` for ${span(Math.max(0, secondsBetween(since, at)))}`;
    const text = `${problem ?? 'The last read failed.'} Cached keys keep signing.`;
    found.push({ tone: 'bad', section: 'key-source', title: `${name} unavailable${lasts}`, text });
  }
  if (tokenExpiresAt !== null && secondsBetween(at, tokenExpiresAt) <= 0) {
    const text = 'Keys cannot be read until the login to Vault succeeds again.';
    found.push({ tone: 'warn', section: 'key-source', title: 'The Vault token has expired', text });
  }
  return found;
}

export function sourceName(type: Status['keySource']['type']): string {
  return type === 'vault' ? 'Vault' : 'Key directory';
}

function environment(one: Environment, status: Status): Finding[] {
  const { name, inFlight, maxInFlight, rejectedShare, clockSkew } = one;
  const found = (tone: Tone, title: string, text: string): Finding[] =>
    tone === 'ok' ? [] : [{ tone, section: 'environments', title, text }];
  const full = saturation(one);
  const rejected = rejections(one, status);
  const rejectedText =
    rejected === 'info'
      ? 'No request failed: it was sent again, signed with another key.'
      : 'The causes are under "Failed requests".';
  return [
    ...found(
      full,
      full === 'bad' ? `${name} is at its limit` : `${name} is near its limit`,
      `${inFlight} of ${maxInFlight} requests in flight; beyond the limit callers get 503. Is the gateway slow?`,
    ),
    ...found(rejected, `${percent(rejectedShare ?? 0)} of the responses of ${name} are 403`, rejectedText),
    ...found(
      clockDifference(one),
      `The clocks of ${name} and this instance differ by ${skew(clockSkew ?? 0)}`,
      'The gateway may reject timestamps. Check the time synchronization of this machine.',
    ),
  ];
}

/** One for each kind of progress, however many keys it concerns. */
function keys(status: Status): Finding[] {
  const groups = new Map<string, { progress: KeyProgress; key: KeyStatus; others: number }>();
  for (const key of status.keys.list) {
    for (const progress of keyProgress(key, originOf(status))) {
      const group = groups.get(progress.kind) ?? { progress, key, others: -1 };
      groups.set(progress.kind, { ...group, others: group.others + 1 });
    }
  }
  return Array.from(groups.values(), ({ progress: { tone, title, text }, key, others }) => ({
    tone,
    section: 'keys',
    title: `${kindName(key.kind)} of ${key.login} in ${key.environment}: ${title.charAt(0).toLowerCase()}${title.slice(1)}`,
    text: others === 0 ? text : html`The same for ${counted(others, 'other key')}. ${text}`,
  }));
}

/** While the key source is down, that is the finding. */
function staleKeys({ keySource: { up }, keys: { list } }: Status): Finding[] {
  const stale = list.filter(({ staleSince }) => staleSince !== null).length;
  if (stale === 0 || up === false) return [];
  const title = `${counted(stale, 'cached key')} could not be refreshed`;
  const text = html`They sign until <code>keys.cache.staleIfError</code> has passed. The log says why.`;
  return [{ tone: 'warn', section: 'keys', title, text }];
}

export function kindName(kind: KeyStatus['kind']): string {
  return kind === 'control_key' ? 'Control key' : 'RSA key';
}

function certificates({ at, certificates }: Status): Finding[] {
  return certificates.flatMap((one) => {
    const { tone } = lifetime(at, one);
    if (tone === 'ok') return [];
    const seconds = secondsBetween(at, one.until);
    const where = one.environment === null ? '' : ` of ${one.environment}`;
    const when = seconds > 0 ? `expires in ${span(seconds)}` : 'has expired';
    const text = 'Renew it and replace the file; no restart is needed.';
    return [{ tone, section: 'certificates', title: `Certificate ${one.name}${where} ${when}`, text }];
  });
}

function configuration({ config: { reloadFailed } }: Status): Finding[] {
  if (!reloadFailed) return [];
  const text = 'The previous one is in effect. The log says what is wrong, or that a restart is required.';
  return [{ tone: 'warn', section: 'instance', title: 'The configuration was not reloaded', text }];
}
