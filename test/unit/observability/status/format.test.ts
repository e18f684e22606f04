import { describe, expect, it } from '@jest/globals';
import {
  clockText,
  latency,
  percent,
  rate,
  relative,
  skew,
  span,
} from '../../../../src/observability/status/format.ts';

const now = '2026-11-22T14:03:07.000Z';

describe('a value of the status page', () => {
  it.each([
    [span(0.4), '0 s'],
    [span(59.9), '59 s'],
    [span(60), '1 min'],
    [span(3_599), '59 min'],
    [span(3_600), '1 h'],
    [span(2 * 86_400 - 1), '47 h'],
    [span(2 * 86_400), '2 days'],
    [relative(now, '2026-11-22T14:03:06.500Z'), 'just now'],
    [relative(now, '2026-11-22T14:00:07.000Z'), '3 min ago'],
    [relative(now, '2026-11-22T14:03:50.000Z'), 'in 43 s'],
    [clockText(now, '2026-11-22T00:00:00.000Z'), '00:00:00'],
    [clockText(now, '2026-11-21T23:59:59.000Z'), '2026-11-21 23:59'],
    [rate(0), '0'],
    [rate(0.04), '< 0.1'],
    [rate(2.35), '2.4'],
    [rate(9.97), '10'],
    [rate(86.2), '86'],
    [rate(12_345.6), '12,346'],
    [percent(0), '0%'],
    [percent(0.0004), '< 0.1%'],
    [percent(0.0251), '2.5%'],
    [percent(0.0999), '10%'],
    [percent(0.634), '63%'],
    [percent(1), '100%'],
    [latency(0.0012), '1.2 ms'],
    [latency(0.00998), '10 ms'],
    [latency(0.084), '84 ms'],
    [latency(0.9999), '1.0 s'],
    [latency(28.12), '28.1 s'],
    [skew(0.04), '0 s'],
    [skew(-0.04), '0 s'],
    [skew(0.2), '+0.2 s'],
    [skew(-47.31), '\u221247.3 s'],
  ])('is written as %s', (text, expected) => {
    expect(text).toBe(expected);
  });
});
