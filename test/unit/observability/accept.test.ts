import { expect, it } from '@jest/globals';
import { prefersOpenMetrics } from '../../../src/observability/admin-app.ts';

it.each([
  'application/openmetrics-text',
  'application/openmetrics-text;version=1.0.0;q=0.001',
  'APPLICATION/OpenMetrics-Text; Version=1.0.0; Q=1.000',
  'text/plain, application/openmetrics-text',
  'application/openmetrics-text;q=0.5, text/plain;q=0.5',
  'application/openmetrics-text, */*',
  'application/*',
  'application/openmetrics-text;version=0.0.1;q=0, application/openmetrics-text;version=1.0.0',
  'text/plain;q=0.4, application/openmetrics-text;note="a, b; q=0";q=0.5',
])('a client prefers OpenMetrics with Accept: %s', (accept) => {
  expect(prefersOpenMetrics(accept)).toBe(true);
});

it.each([
  undefined,
  '',
  '*/*',
  'text/*, application/*',
  'application/openmetrics-text;q=0',
  'application/openmetrics-text;q=0.000, */*',
  'application/openmetrics-text; version=1.0.0 ; q=0.3, text/plain',
  'application/openmetrics-text;q=0.3, text/*;q=0.4',
  'application/openmetrics-text;q=0.3, */*;q=0.4',
  'application/openmetrics-text;q=high',
  'application/openmetrics-text;q=1.5',
  'x-application/openmetrics-text',
  'application/openmetrics-text2',
  'text/html;note="application/openmetrics-text, application/openmetrics-text"',
  'text/html;note="not closed, application/openmetrics-text',
])('a client gets the text format with Accept: %s', (accept) => {
  expect(prefersOpenMetrics(accept)).toBe(false);
});

it('parsing takes linear time in the length of the header', () => {
  const start = process.cpuUsage();
  // Eight times what Node accepts: the square would take minutes.
  for (const part of ['"\\', '",', '"\\"', ';q=', ' ', ',;']) prefersOpenMetrics(part.repeat(65_536));
  expect(process.cpuUsage(start).user / 1e6).toBeLessThan(5);
});
