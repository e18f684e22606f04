import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { KeyStatus } from '../../../../src/observability/status/facts.ts';
import {
  clockText,
  latency,
  percent,
  rate,
  relative,
  skew,
  span,
} from '../../../../src/observability/status/format.ts';
import { pagePolicy, renderStatusPage } from '../../../../src/observability/status/page.ts';
import { type Status, statusSchema } from '../../../../src/observability/status/schema.ts';
import { anyCharacter } from '../../../support/any-character.ts';
import {
  ago,
  callerStatus,
  calmStatus,
  emptyStatus,
  failedRequest,
  hostileStatus,
  keyStatus,
  keyVersion,
  rotationStatus,
  troubleStatus,
  uncertainPayment,
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

  it('has a heading for every row and every column', () => {
    expect(page).toContain('<tr role="row"><th scope="row"');
    expect(page).not.toMatch(/<tr role="row"><(?!th scope="(row|col)")/);
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

const textOf = (status: Status): string =>
  renderStatusPage(status)
    .replace(/<style>[^]*<\/script>/, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');

const keysOf = (...list: KeyStatus[]): Status => calmStatus({ keys: { total: list.length, list } });

it.each<[what: string, status: Status, text: RegExp]>([
  ['that all is well', calmStatus(), /Ready This instance receives requests\. Nothing needs attention\./],
  ['that nothing is', emptyStatus(), /No key was needed yet\. .* Key directory \S+ not read yet - /],
  [
    'that one is not ready',
    { ...troubleStatus(), health: { ready: false, reasons: [], warnings: [] } },
    /Not ready This instance should not receive requests\. 11 problems:/,
  ],
  ['how well the key source is', calmStatus(), /Vault vault\.example:8200 Up \S+ \S+ 9 days ago/],
  [
    'what is rotated',
    rotationStatus(),
    /RSA key version 2 Waiting for the gateway 6 min .* version 1 In use 201 days/,
  ],
  [
    'what was rotated',
    keysOf(keyStatus({ versions: [keyVersion(3), keyVersion(2, { state: 'rejected' })] })),
    /version 2 No longer accepted/,
  ],
  [
    'why a key cannot be used',
    keysOf(keyStatus({ versions: [keyVersion(3, { state: 'unusable', problem: 'it is empty' })] })),
    /Unusable it is empty/,
  ],
  [
    'which keys need attention first',
    keysOf(keyStatus({ login: 'normal' }), keyStatus({ login: 'stale', staleSince: ago(3) })),
    /production\/stale .* production\/normal/,
  ],
  [
    'which environments need attention first',
    keysOf(
      keyStatus({
        environment: 'sandbox',
        signingVersion: null,
        versions: [keyVersion(3, { state: 'unusable' })],
      }),
    ),
    /Environments .* sandbox .* production .* Keys in use/,
  ],
  [
    'how often a caller was limited',
    calmStatus({ callers: [callerStatus({ name: 'billing', requests: 9, denied: 1, limited: 7 })] }),
    /Denied Limited Last seen billing 9 1 7 /,
  ],
  [
    'a payment to query',
    calmStatus({ uncertainPayments: [uncertainPayment({ orderId: null })] }),
    /14:03:03\.000Z transfer order - of checkout, login acme, request 6d0b/,
  ],
  [
    'certificates',
    troubleStatus(),
    /Certificate listener Renew now .* in 3 days Certificate gateway-client production Expired .* 2 h ago/,
  ],
])('the page says %s', (_what, status, text) => {
  expect(textOf(status)).toMatch(text);
});

it('links lead to the runbook where its URL is configured, and are not there else', () => {
  const linked = renderStatusPage(troubleStatus());
  expect(linked).toMatch(/<a href="https:[^"]*#countersignkeysourcedown" rel="noreferrer">Runbook<\/a>/);
  expect(linked).toMatch(/href="https:[^"]*#countersignsaturated" rel="noreferrer"><span [^>]*>overloaded</);
  expect(renderStatusPage({ ...troubleStatus(), runbookUrl: null })).not.toMatch(
    /Runbook|#countersign|https:/,
  );
});

it.each([
  ['not-sent', 'idle'],
  ['unknown', 'bad'],
] as const)('a failed request stands out only if its outcome is not known: %s', (outcome, tone) => {
  const page = renderStatusPage(calmStatus({ failures: [failedRequest({ outcome })] }));
  expect(page).toContain(`<span class="pill ${tone}" title="">${outcome}</span>`);
});

it('no ID is there twice, though two findings are about the same and a request failed twice', () => {
  const { findings } = troubleStatus();
  const failures = [failedRequest({ at: ago(9) }), failedRequest()];
  const page = renderStatusPage({ ...calmStatus({ failures }), findings: [...findings, ...findings] });
  const ids = page.match(/ id="[^"]*"/g) ?? [];
  expect(ids.length).toBeGreaterThan(2 * findings.length);
  expect(new Set(ids).size).toBe(ids.length);
});

it('a page that is paused has no script', () => {
  expect(renderStatusPage(calmStatus(), { refresh: false })).not.toMatch(/<script|http-equiv/);
});

describe('a value', () => {
  const plain = tagsOf(hostileStatus('x'));

  it('adds no tag and no attribute, whatever it is', () => {
    const text = fc.oneof(
      fc.string({ unit: anyCharacter }),
      fc.string({ unit: fc.constantFrom('<', '>', '"', "'", '&', '/', ' ', '=', 'script', '\n', '\u202e') }),
    );
    const adds = fc.property(text, (one) => expect(tagsOf(hostileStatus(one))).toBe(plain));
    fc.assert(adds, { numRuns: 300 });
  });

  it.each([
    ['\u202e', '[U+202E]'],
    ['\u200b', '[U+200B]'],
    ['\u0000', '[U+0000]'],
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

const now = '2026-11-22T14:03:07.000Z';

it.each([
  [span(60), '1 min'],
  [span(3_600), '1 h'],
  [span(2 * 86_400 - 1), '47 h'],
  [span(2 * 86_400), '2 days'],
  [relative(now, '2026-11-22T14:03:06.500Z'), 'just now'],
  [relative(now, '2026-11-22T14:00:07.000Z'), '3 min ago'],
  [relative(now, '2026-11-22T14:03:50.000Z'), 'in 43 s'],
  [clockText(now, '2026-11-22T00:00:00.000Z'), '00:00:00'],
  [clockText(now, '2026-11-21T23:59:59.000Z'), '2026-11-21 23:59'],
  [rate(0.04), '< 0.1'],
  [rate(9.97), '10'],
  [rate(12_345.6), '12,346'],
  [percent(0.0004), '< 0.1%'],
  [percent(0.004), '0.4%'],
  [percent(0.0251), '2.5%'],
  [percent(0.0999), '10%'],
  [percent(0.634), '63%'],
  [latency(0.0012), '1.2 ms'],
  [latency(0.00998), '10 ms'],
  [latency(0.9999), '1.0 s'],
  [latency(28.12), '28.1 s'],
  [skew(0.04), '0 s'],
  [skew(-0.04), '0 s'],
  [skew(-47.31), '\u221247.3 s'],
  [skew(-60_115_790), '\u2212695 days'],
])('a value is written as %s', (text, expected) => {
  expect(text).toBe(expected);
});

it('ten rows are in sight, those that need attention first, and the others are folded', () => {
  const shown = (count: number): string => {
    const callers = Array.from({ length: count }, (_, index) =>
      callerStatus({ name: `caller-${index}`, denied: index === count - 1 ? 1 : 0 }),
    );
    return renderStatusPage(calmStatus({ callers })).replace(/^[^]*<section id="callers"/, '');
  };
  expect(shown(10)).not.toContain('<summary id="callers-more">');
  expect(shown(11)).toContain('<summary id="callers-more">1 more caller<');
  expect(shown(13)).toContain('<summary id="callers-more">3 more callers<');
  expect(/caller-\d+/.exec(shown(13))?.[0]).toBe('caller-12');
});
