import { counted, percent, rate, relative, secondsBetween, span, whole } from '../format.ts';
import { keyProgress, originOf } from '../key-progress.ts';
import { lifetime, rejections, saturation } from '../limits.ts';
import { maxFailures } from '../recorder.ts';
import type { Status } from '../schema.ts';
import { type Html, html, type Tone, worst } from './parts.ts';

/** The numbers to see first, each a link to its section. */
export function tiles(status: Status): Html {
  return html`<nav aria-label="Sections"><ul class="tiles">
${[traffic, rejected, keys, failures, callers, expiry].map((one) => one(status))}</ul></nav>
`;
}

function tile(section: string, name: string, value: string, detail: string, tone: Tone): Html {
  return html`<li><a href="#${section}" class="${tone}"><span>${name}</span> <strong>${value}</strong> <span>${detail}</span></a></li>\n`;
}

function traffic({ environments }: Status): Html {
  const perSecond = environments.reduce((sum, one) => sum + one.requestsPerSecond, 0);
  const inFlight = environments.reduce((sum, one) => sum + one.inFlight, 0);
  const tone = worst(environments.map(saturation));
  return tile('environments', 'Requests per second', rate(perSecond), `${whole(inFlight)} in flight`, tone);
}

function rejected(status: Status): Html {
  const { environments } = status;
  const [highest] = environments
    .flatMap(({ name, rejectedShare }) => (rejectedShare === null ? [] : [{ name, share: rejectedShare }]))
    .sort((one, other) => other.share - one.share);
  const value = highest === undefined ? '\u2013' : percent(highest.share);
  const tone = worst(environments.map((one) => rejections(one, status)));
  return tile('environments', 'Highest share of 403', value, highest?.name ?? 'no responses', tone);
}

function keys(status: Status): Html {
  const { total, list } = status.keys;
  const origin = originOf(status);
  const progress = list.map((key) => keyProgress(key, origin).map(({ severity }) => severity));
  const waiting = progress.filter((all) => all.includes('info')).length;
  const failing = progress.filter((all) => all.some((severity) => severity !== 'info')).length;
  const details = [
    ...(failing > 0 ? [counted(failing, 'problem')] : []),
    ...(waiting > 0 ? [counted(waiting, 'rotation')] : []),
  ];
  const normal = total === 0 ? 'none needed yet' : 'newest versions sign';
  return tile('keys', 'Keys in use', whole(total), details.join(', ') || normal, worst(progress.flat()));
}

function failures({ at, failures: list }: Status): Html {
  const [newest] = list;
  const value = list.length >= maxFailures ? `${maxFailures}+` : whole(list.length);
  const detail = newest === undefined ? 'since the start' : `last ${relative(at, newest.at)}`;
  return tile('failures', 'Failed requests', value, detail, 'ok');
}

function callers({ callers: list }: Status): Html {
  const denied = list.reduce((sum, one) => sum + one.denied, 0);
  const detail = denied === 0 ? 'none denied' : `${counted(denied, 'request')} denied`;
  return tile('callers', 'Callers', whole(list.length), detail, 'ok');
}

function expiry({ at, certificates }: Status): Html {
  const [first] = certificates.toSorted((one, other) => secondsBetween(other.until, one.until));
  const tone = worst(certificates.map((one) => lifetime(at, one).severity));
  if (first === undefined) return tile('certificates', 'Next expiry', '\u2013', 'no certificates', tone);
  const seconds = secondsBetween(at, first.until);
  return tile('certificates', 'Next expiry', seconds > 0 ? span(seconds) : 'expired', first.name, tone);
}
