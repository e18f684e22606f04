import { sourceName } from '../findings.ts';
import { relative, span } from '../format.ts';
import type { Status } from '../schema.ts';
import { type Content, type Html, html } from './html.ts';
import { clockTime, facts, none, pill, section } from './parts.ts';

export function keySource({ at, keySource: source }: Status): Html {
  const { type, up, since, problem, tokenExpiresAt } = source;
  const pairs: [string, Content][] = [
    ['Type', sourceName(type)],
    ['State', state(up)],
  ];
  if (since !== null) pairs.push([up === false ? 'Down since' : 'Up since', moment(at, since)]);
  if (type === 'vault') {
    const expiry = tokenExpiresAt === null ? none('never, or unknown') : moment(at, tokenExpiresAt);
    pairs.push(['Token expires', expiry]);
  }
  if (problem !== null) pairs.push(['Problem', html`<span class="long">${problem}</span>`]);
  return section({ id: 'key-source', title: 'Key source' }, facts(pairs));
}

function state(up: boolean | null): Html {
  if (up === null) return pill('idle', 'Not read yet');
  return up ? pill('ok', 'Up') : pill('bad', 'Unavailable');
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
