import { describe, expect, it } from '@jest/globals';
import { problemsOf } from './checking.ts';

/** @param fields of tracing; flow style */
const messages = (fields: string): string[] =>
  problemsOf(
    `environments:\n  sandbox: { baseUrl: "https://gateway.example", product: gw }\nkeys: { source: directory, directory: keys }\ntracing: { ${fields} }\n`,
  ).map((line) => line.replace(/^\d+ /, ''));

const otlp = 'otlp: "https://collector.internal:4318"';

describe('tracing', () => {
  it.each([
    otlp,
    'otlp: "http://collector.internal:4318"',
    `${otlp}, sampleRatio: 0`,
    `${otlp}, sampleRatio: 1`,
    `${otlp}, sampleRatio: "0.25"`,
    `${otlp}, sampleRatio: .5`,
    `${otlp}, headers: { Authorization: "Bearer x", X-Scope-OrgID: payments }, caFile: ca.pem, minVersion: "1.3"`,
    `${otlp}, egressProxy: { url: "http://egress.internal:3128" }`,
    'otlp: "http://127.0.0.1:4318", headers: { Authorization: x }',
  ])('may have %s', (fields) => {
    expect(messages(fields)).toEqual([]);
  });

  it.each([
    ['sampleRatio: 0.1', 'tracing.otlp: is missing'],
    ['otlp: "collector:4318"', 'tracing.otlp: must be an absolute URL'],
    ['otlp: "https://user:secret@collector"', 'tracing.otlp: must not contain credentials or "@"'],
    [`${otlp}, sampleRatio: 1.5`, 'tracing.sampleRatio: '],
    [`${otlp}, sampleRatio: -0.1`, 'tracing.sampleRatio: '],
    [`${otlp}, sampleRatio: "1%"`, 'tracing.sampleRatio: '],
    [`${otlp}, headers: { "a b": x }`, 'tracing.headers'],
    [`${otlp}, headers: { Content-Length: "1" }`, 'tracing.headers'],
    [`${otlp}, headers: { Host: x }`, 'tracing.headers'],
    [
      `${otlp}, headers: { Authorization: "x\\r\\nHost: y" }`,
      'tracing.headers.Authorization: must have values',
    ],
    [`${otlp}, headers: { Authorization: "" }`, 'tracing.headers.Authorization: must have values'],
    [
      'otlp: "http://collector.internal:4318", headers: { Authorization: x }',
      'tracing.otlp: must use https unless the host is loopback, because headers hold credentials',
    ],
    [
      'otlp: "http://collector.internal:4318", egressProxy: { url: "http://egress.internal:3128" }',
      'tracing.egressProxy: must not be set for a receiver without https',
    ],
    [`${otlp}, ratio: 1`, 'tracing.ratio: '],
  ])('cannot have %s', (fields, expected) => {
    expect(messages(fields)).toEqual([expect.stringContaining(expected)]);
  });

  it('may have twenty headers', () => {
    const headers = (count: number): string =>
      Array.from({ length: count }, (_, index) => `x-${index}: v`).join();
    expect(messages(`${otlp}, headers: { ${headers(20)} }`)).toEqual([]);
    expect(messages(`${otlp}, headers: { ${headers(21)} }`)).toEqual(['tracing.headers: must be at most 20']);
  });

  it('repeats no header in a problem', () => {
    expect(messages(`${otlp}, headers: { Authorization: "secret-é" }`).join()).not.toContain('secret-');
  });
});
