import { sourceName } from '../findings.ts';
import { relative, span, whole } from '../format.ts';
import type { Status } from '../schema.ts';
import { type Content, clockTime, facts, type Html, html, none, pill, section } from './parts.ts';

export function keySource({ at, keySource: source }: Status): Html {
  const { type, state, since, deniedLogins, problem, tokenExpiresAt } = source;
  const pairs: [string, Content][] = [
    ['Type', sourceName(type)],
    ['State', stateOf(state)],
  ];
  if (since !== null && state !== null) pairs.push([sinceTexts[state], moment(at, since)]);
  pairs.push(['Denied logins', deniedLogins === 0 ? none('none') : whole(deniedLogins)]);
  if (type === 'vault') {
    const expiry = tokenExpiresAt === null ? none('never, or unknown') : moment(at, tokenExpiresAt);
    pairs.push(['Token expires', expiry]);
  }
  if (problem !== null) pairs.push(['Problem', html`<span class="long">${problem}</span>`]);
  return section({ id: 'key-source', title: 'Key source' }, facts(pairs));
}

const sinceTexts = { up: 'Up since', denied: 'Denied since', down: 'Down since' };

function stateOf(state: Status['keySource']['state']): Html {
  if (state === null) return pill('idle', 'Not read yet');
  if (state === 'denied') return pill('bad', 'Denies keys');
  return state === 'up' ? pill('ok', 'Up') : pill('bad', 'Unavailable');
}

export function instance({ at, process, config }: Status): Html {
  const { digest, loadedAt, reloadFailed } = config;
  return section(
    { id: 'instance', title: 'Instance' },
    facts([
      ['Version', process.version],
      ['Node.js', process.node],
      ['Uptime', span(process.uptime)],
      ['Started', moment(at, process.startedAt)],
      ['Configuration loaded', moment(at, loadedAt)],
      ['Configuration', reloadFailed ? pill('warn', 'Not reloaded') : pill('ok', 'In effect')],
      ['Configuration digest', html`<code>${digest}</code>`],
    ]),
  );
}

function moment(now: string, time: string): Html {
  return html`${clockTime(now, time)} <span class="detail">${relative(now, time)}</span>`;
}
