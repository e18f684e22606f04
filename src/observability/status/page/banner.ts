import type { Status } from '../schema.ts';
import type { Finding } from './findings.ts';
import { counted } from './format.ts';
import { type Html, html } from './html.ts';
import { pill, type Tone } from './parts.ts';

const labels: Readonly<Record<Tone, string>> = {
  bad: 'Act now',
  warn: 'Act soon',
  info: 'In progress',
  ok: 'Normal',
  idle: 'Normal',
};

/** Whether this instance receives requests, and what to look at. */
export function banner({ health: { ready } }: Status, found: readonly Finding[]): Html {
  const problems = found.filter(({ tone }) => tone !== 'info').length;
  const tone = ready ? (found[0]?.tone ?? 'ok') : 'bad';
  const text = ready ? 'This instance receives requests.' : 'This instance should not receive requests.';
  const summary = problems === 0 ? 'Nothing needs attention.' : `${counted(problems, 'problem')}:`;
  return html`<section class="banner ${tone}" aria-labelledby="health-title" id="health">
<div class="head"><h2 id="health-title" class="${ready ? 'ok' : 'bad'}">${ready ? 'Ready' : 'Not ready'}</h2><p>${text} ${summary}</p></div>
${found.length === 0 ? undefined : html`<ul>${found.map(item)}</ul>`}
</section>
`;
}

function item({ tone, section, title, text }: Finding): Html {
  return html`<li>${pill(tone, labels[tone])} <p><a href="#${section}">${title}</a>. ${text}</p></li>\n`;
}
