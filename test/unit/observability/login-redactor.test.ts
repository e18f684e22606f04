import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { createLogger } from '../../../src/observability/logger.ts';
import { LoginRedactor, redactedLogin } from '../../../src/observability/login-redactor.ts';
import type { MetricsObserver } from '../../../src/observability/metrics-observer.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { holdsCardNumber } from '../../../src/redact-card-data.ts';

// Test numbers that card schemes and acquirers publish.
const cards = [
  '4222222222222',
  '30569309025904',
  '378282246310005',
  '4111111111111111',
  '6304000000000000000',
];

/** The check digit by the table of ISO/IEC 7812-1 annex B. */
function checkDigit(digits: string): number {
  const doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
  const sum = Array.from(digits, Number)
    .toReversed()
    .reduce((total, digit, index) => total + (index % 2 === 0 ? (doubled[digit] ?? 0) : digit), 0);
  return (10 - (sum % 10)) % 10;
}

describe('a login', () => {
  it.each([
    ...cards,
    '4111-1111-1111-1111',
    '4111.1111_1111~1111',
    '4111--1111--1111--1111',
    'acme-4111111111111111',
    '4111111111111111@acme',
    '2024-4111111111111111',
    'x4111111111111111y',
  ])('looks like a card number: %s', (login) => {
    expect(holdsCardNumber(login)).toBe(true);
  });

  it.each([
    'acme',
    '4111111111111112',
    '4111-1111-1111-1112',
    '411111111111',
    '42',
    '18', // Luhn holds, but it has two digits.
    '00000000000000000000', // 20 digits.
    '4111a1111b1111c1111',
    '7b9d1c2e-8f04-4a6b-9c1d-2e3f4a5b6c7d',
  ])('does not: %s', (login) => {
    expect(holdsCardNumber(login)).toBe(false);
  });

  it('looks like one with the correct check digit only', () => {
    const digits = fc.stringMatching(/^\d{12,18}$/);
    fc.assert(
      fc.property(digits, fc.nat(9), (body, last) => {
        expect(holdsCardNumber(`${body}${last}`)).toBe(checkDigit(body) === last);
      }),
    );
  });
});

describe('a text', () => {
  const redactor = new LoginRedactor(['5555555555554444']);

  it('is kept, except words that look like card numbers and are not configured', () => {
    expect(redactor.text('The keys of login "4111-1111-1111-1111" in sandbox/4111111111111111.')).toBe(
      `The keys of login "${redactedLogin}" in sandbox/${redactedLogin}`,
    );
    expect(redactor.text('Login "5555555555554444" has no keys.')).toBe(
      'Login "5555555555554444" has no keys.',
    );
    expect(redactor.text('Login "acme" has no keys.')).toBe('Login "acme" has no keys.');
  });

  it('of half a megabyte is scanned within a second', () => {
    for (const part of ['1-', '12-345.', '0', '1', '4111111111112-']) {
      const text = part.repeat(500_000 / part.length);
      const began = performance.now();
      redactor.text(text);
      expect({ part, inTime: performance.now() - began < 1_000 }).toEqual({ part, inTime: true });
    }
  });

  it('is redacted in the message and the login of a log line', () => {
    const lines: string[] = [];
    const log = redactor.log(createLogger('debug', { write: (line: string) => void lines.push(line) }));
    log.message('error', 'The keys of login "4111111111111111" cannot be read', {
      login: '4111111111111111',
    });
    log.message('error', 'cannot be read', { environment: 'sandbox', login: '5555555555554444' });
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { msg: `The keys of login "${redactedLogin}" cannot be read`, login: redactedLogin },
      { environment: 'sandbox', login: '5555555555554444' },
    ]);
  });
});

it('every text of a debug line is redacted, and there are none at another level', () => {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const redactor = new LoginRedactor([]);
  expect(redactor.log(createLogger('info', destination)).debug).toBeUndefined();
  const log = redactor.log(createLogger('debug', destination));
  log.debug?.('of 4111111111111111', { login: '4111111111111111', environment: '4111111111111111', ms: 1 });
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { msg: `of ${redactedLogin}`, login: redactedLogin, environment: redactedLogin, ms: 1 },
  ]);
});

it('fallbacks of a login that looks like a card number are not counted, unless it is configured', () => {
  const logins: string[] = [];
  const metrics: MetricsObserver = new LoginRedactor(['5555555555554444']).metrics({
    ...createPrometheus({ version: '1', environments: {}, callers: [] }),
    keyFallback: ({ login }) => void logins.push(login),
  });
  for (const login of ['4111111111111111', '5555555555554444', 'acme']) {
    metrics.keyFallback({ environment: 'sandbox', login }, 'private_key', 'older');
  }
  expect(logins).toEqual(['5555555555554444', 'acme']);
});

it('problems of the key source are redacted', () => {
  const problems: (string | undefined)[] = [];
  const metrics: MetricsObserver = new LoginRedactor([]).metrics({
    ...createPrometheus({ version: '1', environments: {}, callers: [] }),
    keySourceUp: (_up, cause) => void problems.push(cause),
    loginFailed: (problem) => void problems.push(problem),
  });
  metrics.keySourceUp(true);
  metrics.keySourceUp(false, 'cannot read 4111111111111111');
  metrics.loginFailed('denied for 4111111111111111');
  expect(problems).toEqual([undefined, `cannot read ${redactedLogin}`, `denied for ${redactedLogin}`]);
});
