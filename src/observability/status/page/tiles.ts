import { counted, percent, rate, relative, secondsBetween, span, whole } from '../format.ts';
import { keyProgress, originOf } from '../key-progress.ts';
import { lifetime, rejections, saturation } from '../limits.ts';
import { maxFailures } from '../recorder.ts';
import type { Status } from '../schema.ts';
import { type Html, html, type Tone, worst } from './parts.ts';

interface Tile {
  readonly section: string;
  readonly name: string;
  readonly value: string;
  readonly detail: string;
  readonly tone: Tone;
}

/** The numbers to see first, each a link to its section. */
export function tiles(status: Status): Html {
  const all = [
    traffic(status),
    rejected(status),
    keys(status),
    failures(status),
    callers(status),
    expiry(status),
  ];
  return html`<nav aria-label="Sections"><ul class="tiles">
${all.map(tile)}</ul></nav>
`;
}

function tile({ section, name, value, detail, tone }: Tile): Html {
  return html`<li><a href="#${section}" class="${tone}"><span>${name}</span> <strong>${value}</strong> <span>${detail}</span></a></li>\n`;
}

function traffic({ environments }: Status): Tile {
  const perSecond = environments.reduce((sum, one) => sum + one.requestsPerSecond, 0);
  const inFlight = environments.reduce((sum, one) => sum + one.inFlight, 0);
  return {
    section: 'environments',
    name: 'Requests per second',
    value: rate(perSecond),
    detail: `${whole(inFlight)} in flight`,
    tone: worst(environments.map(saturation)),
  };
}

function rejected(status: Status): Tile {
  const { environments } = status;
  const [highest] = environments
    .flatMap(({ name, rejectedShare }) => (rejectedShare === null ? [] : [{ name, share: rejectedShare }]))
    .sort((one, other) => other.share - one.share);
  return {
    section: 'environments',
    name: 'Highest share of 403',
    value: highest === undefined ? '\u2013' : percent(highest.share),
    detail: highest === undefined ? 'no responses' : highest.name,
    tone: worst(environments.map((one) => rejections(one, status))),
  };
}

function keys(status: Status): Tile {
  const { total, list } = status.keys;
  const progress = list.map((key) => keyProgress(key, originOf(status)));
  const waiting = progress.filter((all) => all.some(({ severity }) => severity === 'info')).length;
  const failing = progress.filter((all) => all.some(({ severity }) => severity !== 'info')).length;
  const details = [
    ...(failing > 0 ? [counted(failing, 'problem')] : []),
    ...(waiting > 0 ? [counted(waiting, 'rotation')] : []),
  ];
  return {
    section: 'keys',
    name: 'Keys in use',
    value: whole(total),
    detail:
      details.length > 0 ? details.join(', ') : total === 0 ? 'none needed yet' : 'newest versions sign',
    tone: worst(progress.flat().map(({ severity }) => severity)),
  };
}

function failures({ at, failures: list }: Status): Tile {
  const [newest] = list;
  return {
    section: 'failures',
    name: 'Failed requests',
    value: list.length >= maxFailures ? `${maxFailures}+` : whole(list.length),
    detail: newest === undefined ? 'since the start' : `last ${relative(at, newest.at)}`,
    tone: 'ok',
  };
}

function callers({ callers: list }: Status): Tile {
  const denied = list.reduce((sum, one) => sum + one.denied, 0);
  return {
    section: 'callers',
    name: 'Callers',
    value: whole(list.length),
    detail: denied === 0 ? 'none denied' : `${counted(denied, 'request')} denied`,
    tone: 'ok',
  };
}

function expiry({ at, certificates }: Status): Tile {
  const [first] = certificates.toSorted((one, other) => secondsBetween(other.until, one.until));
  const seconds = first === undefined ? 0 : secondsBetween(at, first.until);
  const time = seconds > 0 ? span(seconds) : 'expired';
  return {
    section: 'certificates',
    name: 'Next expiry',
    value: first === undefined ? '\u2013' : time,
    detail: first === undefined ? 'no certificates' : first.name,
    tone: worst(certificates.map((one) => lifetime(at, one).severity)),
  };
}
