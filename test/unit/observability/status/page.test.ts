import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { pagePolicy, renderStatusPage } from '../../../../src/observability/status/page.ts';
import { type Status, statusSchema } from '../../../../src/observability/status/schema.ts';
import { anyCharacter } from '../../../support/any-character.ts';
import {
  calmStatus,
  emptyStatus,
  hostileStatus,
  rotationStatus,
  troubleStatus,
} from '../../../support/status.ts';

/** The tags of a page with the names of their attributes, but without any value. */
function tagsOf(status: Status): string {
  const tags = renderStatusPage(status)
    .replaceAll(/"[^"]*"/g, '""')
    .match(/<[^>]*>/g);
  return (tags ?? []).join('\n');
}

describe.each([
  ['empty', emptyStatus()],
  ['calm', calmStatus()],
  ['rotation', rotationStatus()],
  ['trouble', troubleStatus()],
  ['hostile', hostileStatus('<b>')],
])('the page of the status "%s"', (_name, status) => {
  const page = renderStatusPage(status);

  it('is of a status that the schema allows', () => {
    expect(statusSchema.parse(status)).toEqual(status);
  });

  it('has one script, no handler, no inline style and nothing to load', () => {
    const [before = '', after = '', ...others] = page.split(/<script type="module">[^]*?<\/script>/);
    expect(others).toEqual([]);
    expect(before + after).not.toMatch(/<script|\son\w+=|\sstyle=|\ssrc=|@import|url\(|javascript:/);
    expect(page.match(/<link [^>]*>/g)).toEqual([
      expect.stringMatching(/^<link rel="icon" href="data:image/),
    ]);
  });

  it('has one h1, and every section a title', () => {
    expect(page.match(/<h1>/g)).toHaveLength(1);
    const sections = [...page.matchAll(/<section [^>]*aria-labelledby="([^"]*)"/g)].map(([, id]) => id);
    expect(sections).toHaveLength(6);
    for (const id of sections) expect(page).toContain(`<h2 id="${id}"`);
  });

  it('has a heading for every row and every column', () => {
    const [rows, rowHeadings] = [/<tr role="row"><t[hd]/g, /<tr role="row"><th scope="(row|col)"/g].map(
      (pattern) => page.match(pattern)?.length,
    );
    expect(rowHeadings).toBe(rows);
  });

  it('has a role for each part of a table, since cards are not displayed as tables', () => {
    const tags = page.match(/<(table|thead|tbody|tr|th|td)\b[^>]*>/g) ?? [];
    expect(tags.filter((tag) => !/ role="\w+"/.test(tag))).toEqual([]);
  });

  it('has a style sheet and a script that the policy allows by their hashes, and nothing else but the icon', () => {
    const hashes = [/<style>([^]*)<\/style>/, /<script type="module">([^]*)<\/script>/].map((pattern) => {
      const [, text = ''] = pattern.exec(page) ?? [];
      return createHash('sha256').update(text).digest('base64');
    });
    expect(pagePolicy).toBe(
      `default-src 'none'; script-src 'sha256-${hashes[1]}'; connect-src 'self'; style-src 'sha256-${hashes[0]}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
  });
});

it('"Runbook" is a link, or is not there', () => {
  const linked = renderStatusPage(troubleStatus());
  expect(linked).toMatch(/<a href="https:[^"]*#countersignkeysourcedown" rel="noreferrer">Runbook<\/a>/);
  expect(renderStatusPage({ ...troubleStatus(), runbookUrl: null })).not.toMatch(
    /Runbook|#countersignkeysource/,
  );
});

it('a page that is paused has no script', () => {
  expect(renderStatusPage(calmStatus(), { refresh: false })).not.toMatch(/<script|http-equiv/);
});

describe('a value', () => {
  const plain = tagsOf(hostileStatus('x'));

  it.each([
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '</style><style>*{display:none}</style>',
    '<!--',
    '&lt;b&gt;',
    '`',
    'constructor',
    '__proto__',
    '',
    'x'.repeat(5_000),
  ])('adds no tag and no attribute: %j', (text) => {
    expect(tagsOf(hostileStatus(text))).toBe(plain);
  });

  it('adds no tag and no attribute, whatever it is', () => {
    const text = fc.oneof(
      fc.string({ unit: anyCharacter }),
      fc.string({ unit: fc.constantFrom('<', '>', '"', "'", '&', '/', ' ', '=', 'script', '\n', '\u202e') }),
    );
    fc.assert(
      fc.property(text, (one) => expect(tagsOf(hostileStatus(one))).toBe(plain)),
      {
        numRuns: 300,
      },
    );
  });

  it.each([
    ['\u202e', '[U+202E]'],
    ['\u2066', '[U+2066]'],
    ['\u200b', '[U+200B]'],
    ['\u0000', '[U+0000]'],
    ['\n', '[U+000A]'],
    ['\u2028', '[U+2028]'],
    ['\ud800', '[U+D800]'],
    ['\u{e0041}', '[U+E0041]'],
  ])('shows the invisible character %j as %s', (character, shown) => {
    const page = renderStatusPage(hostileStatus(`a${character}b`));
    expect(page).toContain(`a${shown}b`);
    expect(page).not.toContain(`a${character}b`);
  });

  it('is shown as it is otherwise', () => {
    const page = renderStatusPage(hostileStatus(`Zoë & 株式会社 <"'\`>`));
    expect(page).toContain('>Zoë &amp; 株式会社 &lt;&quot;&#39;&#96;&gt;<');
  });
});

it('ten rows are in sight, the most serious first, and the others are folded', () => {
  const {
    callers: [caller],
    ...status
  } = calmStatus();
  if (caller === undefined) throw new Error('the status has no caller');
  const shown = (count: number): string => {
    const denied = (index: number): number => (index === count - 1 ? 1 : 0);
    const callers = Array.from({ length: count }, (_, index) => ({
      ...caller,
      name: `caller-${index}`,
      denied: denied(index),
    }));
    return renderStatusPage({ ...status, callers }).replace(/^[^]*<section id="callers"/, '');
  };
  expect(shown(10)).not.toContain('<summary id="callers-more">');
  expect(shown(11)).toContain('<summary id="callers-more">1 more caller<');
  expect(shown(13)).toContain('<summary id="callers-more">3 more callers<');
  expect(/caller-\d+/.exec(shown(13))?.[0]).toBe('caller-12');
});
