import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { renderStatusPage } from '../../../../src/observability/status/page.ts';
import { statusSchema } from '../../../../src/observability/status/schema.ts';
import { ago, failedRequest, troubleStatus } from '../../../support/status.ts';

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
    answered: 'unknown',
    unknown: 'not-sent',
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
  const base = {
    ...troubleStatus(),
    health: { ready: false, reasons: ['draining'], warnings: ['log-stalled'] },
    failures: [failedRequest()],
  };
  const page = renderStatusPage(base);

  it.each(fieldsOf(z.toJSONSchema(statusSchema)))('changes the page: %s', (field) => {
    const changed = leaves(base)
      .filter((path) => nameOf(path) === field)
      .map((path) => [path, valueAt(base, path)] as const)
      .filter(([, value]) => value !== null)
      .map(([path, value]) => statusSchema.parse(withValue(base, path, another(value))));
    expect(changed.map((status) => renderStatusPage(status) === page)).toContain(false);
  });
});

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((inner, name) => Reflect.get(Object(inner), name), value);
}
