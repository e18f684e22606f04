import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { z } from 'zod';
import { parseText } from '../../../src/config/parse-value.ts';
import { configText } from '../../../src/config/print.ts';
import { configSchema } from '../../../src/config/schema.ts';
import { Secret } from '../../../src/secret.ts';
import { digest } from './checking.ts';

/** Something for each kind of field; what a field does not accept is not tried there. */
const values: readonly unknown[] = [
  true,
  false,
  [0, 1, 2, 64, 65_536, 2_000_000, 0.25, 1.2, 1.3],
  ['1.3', '8080', '0.5', '0s', '1500ms', '90m', '36h', '7d', 'acme', 'acme-*', 'transfer', 'Name', digest],
  ['http://127.0.0.1:8090', 'https://proxy.example', 'spiffe://trust.example/a', 'https://a.example/b'],
  ['memory', 'rediss://redis.example:6379'],
  ['/api/v4/x/{endpoint}', 'keys/{environment}/{login}', 'yes', 'null', '~', '#', ' a: "b"\n- \'c\' '],
  ['$', '${', '$${', '${HOME}', '$$${', '\u2028\u0007\u{1f511}', 'x'.repeat(200)],
].flat();

/** Inputs of a schema. Each secret is a mark: the path of its field, which is added to `marks`. */
function inputs(schema: unknown, path: string, marks: Set<string>): fc.Arbitrary<unknown> {
  if (!(schema instanceof z.ZodType)) throw new TypeError(`no schema at ${path}`);
  const accepted = (value: unknown): boolean => schema.safeParse(value).success;
  const inner = (one: unknown, name = '*') => inputs(one, `${path}.${name}`, marks);
  if (schema instanceof z.ZodCodec && schema.safeParse('x').data instanceof Secret) {
    marks.add(`marked:${path}:`);
    return fc.constant(`marked:${path}:`);
  }
  if (schema instanceof z.ZodRecord)
    return fc.dictionary(inner(schema.keyType).map(String), inner(schema.valueType), {
      minKeys: 1,
      maxKeys: 2,
    });
  if (schema instanceof z.ZodArray) return fc.array(inner(schema.element), { minLength: 1, maxLength: 2 });
  if ('unwrap' in schema && typeof schema.unwrap === 'function') return inputs(schema.unwrap(), path, marks);
  if (schema instanceof z.ZodUnion) return fc.oneof(...schema.options.map((one) => inputs(one, path, marks)));
  if (!(schema instanceof z.ZodObject)) {
    const named = schema instanceof z.ZodEnum ? schema.options : [];
    const literal = schema instanceof z.ZodLiteral ? [...schema.values] : [];
    return fc.constantFrom(...[...values, ...named, ...literal].filter(accepted));
  }
  const fields = Object.entries(schema.shape).map(([name, field]) => {
    const before = marks.size;
    const arbitrary = inner(field, name);
    const isRequired = !z.object({ [name]: field }).safeParse({}).success;
    return { name, arbitrary, isRequired, hasSecret: marks.size > before };
  });
  const all = Object.fromEntries(fields.map(({ name, arbitrary }) => [name, arbitrary]));
  const withKeys = (kept: typeof fields) =>
    fc.record(all, { requiredKeys: kept.map(({ name }) => name) }).filter(accepted);
  const required = fields.filter(({ isRequired }) => isRequired);
  // A secret may exclude another field, or require one.
  return fields.some(({ hasSecret }) => hasSecret)
    ? fc.oneof(withKeys(required), withKeys(fields.filter((one) => one.isRequired || one.hasSecret)))
    : withKeys(required);
}

describe('the printed configuration', () => {
  it('loads as the same one, and holds no secret of any secret field of the schema', () => {
    const marks = new Set<string>();
    const seen = new Set<string>();
    fc.assert(
      fc.property(inputs(configSchema, 'config', marks), (input) => {
        const config = configSchema.parse(input);
        const text = configText(config);
        const loaded = parseText(text, configSchema, () => 'from a variable');
        expect('data' in loaded ? loaded.data : loaded).toEqual(config);
        expect(text).not.toContain('marked');
        for (const [mark] of JSON.stringify(input).matchAll(/marked:[^:]*:/g)) seen.add(mark);
      }),
      { seed: 1, numRuns: 30 },
    );
    expect([...seen].sort()).toEqual([...marks].sort());
    expect(marks.size).toBeGreaterThan(5);
  });
});
