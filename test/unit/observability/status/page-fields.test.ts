import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { withFindings } from '../../../../src/observability/status/findings.ts';
import { renderStatusPage } from '../../../../src/observability/status/page.ts';
import { statusSchema } from '../../../../src/observability/status/schema.ts';
import {
  ago,
  calmStatus,
  environmentStatus,
  failedRequest,
  keyStatus,
  keyVersion,
  troubleStatus,
} from '../../../support/status.ts';

type Path = readonly (string | number)[];

/** Each way through objects and arrays to a value that is neither. */
function leaves(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([name, inner]) =>
    leaves(inner, [...path, Array.isArray(value) ? Number(name) : name]),
  );
}

const nameOf = (path: Path): string => path.map((part) => (typeof part === 'number' ? '*' : part)).join('.');

/** The same for a JSON Schema, in which only `null` is an alternative to a value. */
function fieldsOf(schema: unknown, path = ''): string[] {
  const node = z
    .object({
      anyOf: z.array(z.unknown()).optional(),
      properties: z.record(z.string(), z.unknown()).optional(),
      items: z.unknown().optional(),
    })
    .parse(schema);
  if (node.anyOf !== undefined) return fieldsOf(node.anyOf[0], path);
  if (node.items !== undefined) return fieldsOf(node.items, `${path}.*`);
  if (node.properties === undefined) return [path.slice(1)];
  return Object.entries(node.properties).flatMap(([name, one]) => fieldsOf(one, `${path}.${name}`));
}

/** Another value of the same kind, where the schema allows it. */
function another(value: unknown): unknown {
  if (typeof value === 'boolean') return !value;
  if (typeof value === 'number') return Number.isInteger(value) ? value * 2 + 1 : value / 2;
  const others: Readonly<Record<string, string>> = {
    control_key: 'private_key',
    private_key: 'control_key',
    'in-use': 'replaced',
    replaced: 'rejected',
    rejected: 'in-use',
    unusable: 'in-use',
    vault: 'directory',
    down: 'denied',
    accepted: 'rejected',
    answered: 'unknown',
    unknown: 'answered',
    bad: 'warn',
    enforce: 'dry-run',
    draining: 'key-source-never-reached',
    'gateway-unreachable': 'gateway-timeout',
    dns: 'tls',
    'log-stalled': 'log-lines-dropped',
  };
  const text = String(value);
  return others[text] ?? (/^\d{4}-/.test(text) ? ago(77_777) : `${text}2`);
}

function withValue(value: unknown, [name, ...path]: Path, next: unknown): unknown {
  if (name === undefined) return next;
  if (Array.isArray(value))
    return value.map((one, index) => (index === name ? withValue(one, path, next) : one));
  if (typeof value !== 'object' || value === null) throw new TypeError('no such path');
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, key === name ? withValue(one, path, next) : one]),
  );
}

describe('every field of the schema', () => {
  const base = withFindings({
    ...troubleStatus(),
    health: { ready: false, reasons: ['draining' as const], warnings: ['log-stalled' as const] },
    certificates: troubleStatus().certificates.map((one) => ({ ...one, problem: 'tls.crt is empty' })),
    environments: [
      environmentStatus({
        failedShare: 0.5,
        waiting: 7,
        failures: [
          {
            cause: 'gateway-unreachable',
            detail: 'dns',
            login: 'acme',
            count: 1,
            share: 0.25,
            lastAt: ago(3),
          },
          { cause: 'internal', detail: null, login: null, count: 1, share: 0.25, lastAt: ago(3) },
        ],
        rejectedShare: 0.6,
        logins: { accepted: 1, rejected: 1, rejectedNames: ['acme'] },
      }),
      environmentStatus({ logins: { accepted: 0, rejected: 2, rejectedNames: [] } }),
    ],
    keys: {
      total: 3,
      list: [
        keyStatus({ missingSince: ago(60) }),
        keyStatus({ versions: [keyVersion(1, { transitKey: 'acme:3', verdict: 'accepted' })] }),
        keyStatus({ staleSince: ago(3), readProblem: 'denied' }),
        ...troubleStatus().keys.list,
      ],
    },
    keySource: {
      ...troubleStatus().keySource,
      since: ago(99),
      deniedLogins: 1,
      deniedLogin: 'sandbox/acme',
      loginsNotFound: 1,
      loginNotFound: 'sandbox/beta',
    },
    jwtIssuers: [{ name: 'corp', available: true, problem: 'refused' }],
    audit: { up: false, problem: 'ENOSPC' },
    callers: troubleStatus().callers.map((one) => ({ ...one, limited: 3, limitedAt: ago(3) })),
    failures: [failedRequest({ orderId: 'order-7' })],
  });
  const finding = {
    ...base.findings[0],
    code: 'draining',
    environment: 'production',
    login: 'acme',
    caller: 'billing',
    payments: base.findings.flatMap(({ payments }) => payments).slice(0, 1),
  };
  const status = statusSchema.parse({ ...base, health: calmStatus().health, findings: [finding] });
  const page = { ofFacts: renderStatusPage(base), ofFinding: renderStatusPage(status) };

  it.each(fieldsOf(z.toJSONSchema(statusSchema)))('changes the page: %s', (field) => {
    const isFact = !/^(well|findings)\b/.test(field);
    const before = isFact ? base : status;
    const changed = leaves(before)
      .filter((path) => nameOf(path) === field)
      .map((path) => [path, valueAt(before, path)] as const)
      .filter(([, value]) => value !== null)
      .map(([path, value]) => statusSchema.parse(withValue(before, path, another(value))));
    const pages = changed.map((one) => renderStatusPage(isFact ? withFindings(one) : one));
    expect(pages.some((one) => one !== page[isFact ? 'ofFacts' : 'ofFinding'])).toBe(true);
  });
});

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((inner, name) => Reflect.get(Object(inner), name), value);
}
