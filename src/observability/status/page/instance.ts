import type { Status } from '../schema.ts';
import { sourceName } from './findings.ts';
import { clockTime, relative, span } from './format.ts';
import { type Content, type Html, html } from './html.ts';
import { facts, none, pill, section } from './parts.ts';

export function keySource({ at, keySource: source }: Status): Html {
  const { type, up, since, problem, tokenExpiresAt } = source;
  const unread = html`${pill('idle', 'Not read yet')}`;
  const state = up === true ? pill('ok', 'Up') : pill('bad', 'Unavailable');
  const pairs: [string, Content][] = [
    ['Type', sourceName(type)],
    ['State', up === null ? unread : state],
    [up === false ? 'Down since' : 'Up since', since === null ? none('unknown') : moment(at, since)],
    ['Token expires', tokenExpiresAt === null ? none('never or unknown') : moment(at, tokenExpiresAt)],
    ...(problem === null ? [] : [['Problem', problem] satisfies [string, Content]]),
  ];
  return section({ id: 'key-source', title: 'Key source' }, facts(pairs));
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
      ['Last reload', reloadFailed ? pill('warn', 'Failed, or needs a restart') : pill('ok', 'In effect')],
      ['Configuration digest', html`<code>${digest}</code>`],
    ]),
  );
}

function moment(now: string, time: string): Html {
  return html`${clockTime(now, time)} <span class="detail">${relative(now, time)}</span>`;
}
