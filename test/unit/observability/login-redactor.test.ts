import { createSecretKey } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { EventObserver } from '../../../src/observability/events.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { LoginRedactor, redactedLogin } from '../../../src/observability/login-redactor.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { holdsCardNumber } from '../../../src/redact-card-data.ts';
import { Secret } from '../../../src/secret.ts';
import { noReadings, routesOf } from '../../support/routes.ts';

/** The check digit by the table of ISO/IEC 7812-1 annex B. */
function checkDigit(digits: string): number {
  const doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
  const sum = Array.from(digits, Number)
    .toReversed()
    .reduce((total, digit, index) => total + (index % 2 === 0 ? (doubled[digit] ?? 0) : digit), 0);
  return (10 - (sum % 10)) % 10;
}

describe('a login', () => {
  it.each(['4111-1111-1111-1111', 'acme-4111111111111111', '4111111111111111@acme', 'x4111111111111111y'])(
    'looks like a card number: %s',
    (login) => {
      expect(holdsCardNumber(login)).toBe(true);
    },
  );

  it.each([
    'acme',
    '411111111111',
    '00000000000000000000', // 20 digits.
    '4111a1111b1111c1111',
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

  it('is redacted in the message and the fields of a log line, at level debug too, which has none at another', () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const log = redactor.redacting(createLogger('debug', destination));
    const [login, cause] = ['4111111111111111', 'EACCES: /keys/4111111111111111'];
    log.message('error', 'The keys of login "4111111111111111" cannot be read', { login, cause });
    log.debug?.('of 4111111111111111', { login, environment: login, ms: 1 });
    log.message('error', 'cannot be read', { environment: 'sandbox', login: '5555555555554444' });
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      {
        msg: `The keys of login "${redactedLogin}" cannot be read`,
        login: redactedLogin,
        cause: `EACCES: /keys/${redactedLogin}`,
      },
      { msg: `of ${redactedLogin}`, login: redactedLogin, environment: redactedLogin, ms: 1 },
      { environment: 'sandbox', login: '5555555555554444' },
    ]);
    expect(redactor.redacting(createLogger('info', destination)).debug).toBeUndefined();
  });
});

describe('names of a client', () => {
  it.each(['4111111111111111', 'CN=4111 1111 1111 1111'])('may be a card number: %s', (name) => {
    const redactor = new LoginRedactor([]);
    const rejected = { credential: 'jwt', jwtSubject: name, certificateSubject: name, peer: '::1' } as const;
    expect(redactor.names(rejected)).toEqual({
      ...rejected,
      jwtSubject: expect.stringMatching(/redacted: looks like a card number\]$/),
      certificateSubject: expect.stringMatching(/redacted: looks like a card number\]$/),
    });
    const credential = { kind: 'jwt', issuer: 'idp', subject: name, keyId: undefined } as const;
    expect(JSON.stringify(redactor.names(credential))).not.toMatch(/1111/);
  });
});

describe('observers', () => {
  const login = { environment: 'sandbox', login: '4111111111111111' };

  it('get an event that was added later redacted, wherever it holds the login', () => {
    const seen: unknown[] = [];
    const other: unknown[] = [];
    const prometheus = createPrometheus({ version: '1', routes: routesOf() });
    const metrics = new LoginRedactor(['5555555555554444']).redacting(
      { ...prometheus, loginSeen: (...values: unknown[]) => void seen.push(values) },
      { loginSeen: (...values) => void other.push(values) },
      {},
    );
    metrics.loginSeen(login, [login], { of: login }, 'for 4111111111111111', 42, undefined);
    metrics.loginSeen({ environment: 'sandbox', login: '5555555555554444' });
    const shown = { environment: 'sandbox', login: redactedLogin };
    expect(seen).toEqual([
      [shown, [shown], { of: shown }, `for ${redactedLogin}`, 42, undefined],
      [{ environment: 'sandbox', login: '5555555555554444' }],
    ]);
    expect(other).toEqual(seen);
    expect(login.login).toBe('4111111111111111');
  });

  it.each([
    ['a map', new Map([[login.login, 1]])],
    ['a set', new Set([login.login])],
    [
      'an instance of a class',
      new (class {
        login = login.login;
      })(),
    ],
    ['an object without a prototype', Object.assign(Object.create(null), login)],
  ])('get no login that looks like a card number in %s', (_kind, value) => {
    const seen: unknown[] = [];
    const events = new LoginRedactor([]).redacting({
      loginSeen: (one: unknown) => void seen.push(one, { one }),
    });
    events.loginSeen(value);
    events.loginSeen([{ value }]);
    expect(inspect(seen, { depth: null })).not.toMatch(/4111/);
    expect(seen).toHaveLength(4);
  });

  it.each([new Date(0), createSecretKey(Buffer.from('a')), new Secret('a'), new Error('a')])(
    'get keys, secrets, times and errors as they are: %p',
    (value) => {
      const seen: unknown[] = [];
      new LoginRedactor([]).redacting({ seen: (one: unknown) => void seen.push(one) }).seen(value);
      expect(seen[0]).toBe(value);
    },
  );

  it('get digits that Countersign made as they are', () => {
    const heads: unknown[] = [];
    const metrics = new LoginRedactor([]).redacting<Partial<EventObserver>>({
      auditRecordsWritten: (head) => void heads.push(head),
    });
    const head = { sequence: 1, mac: 'a4111111111111111b' };
    metrics.auditRecordsWritten?.(head);
    expect(heads).toEqual([head]);
  });

  it('have no series for a login that looks like a card number, unless it is configured', async () => {
    const prometheus = createPrometheus({
      version: '1',
      routes: routesOf(),
    });
    const metrics = new LoginRedactor(['5555555555554444']).redacting<EventObserver>(prometheus);
    for (const name of ['4111111111111111', '5555555555554444', 'acme']) {
      const ref = { environment: 'sandbox', login: name };
      metrics.keyRingUpdated(ref, [{ kind: 'private_key', version: 1, problem: 'cannot be parsed' }]);
      metrics.currentKeyChanged(ref, 'private_key', 2, 1);
    }
    const { body } = await prometheus.page(false, noReadings);
    const logins = new Set([...body.matchAll(/login="([^"]*)"/g)].map(([, name]) => name));
    expect(logins).toEqual(new Set(['5555555555554444', 'acme', 'other']));
  });
});
