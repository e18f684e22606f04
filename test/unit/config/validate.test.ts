import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { parseDocument, visit } from 'yaml';
import { anyCharacter } from '../../support/any-character.ts';
import {
  check,
  exampleNames,
  exampleText,
  exampleVariables,
  expectProblems,
  problemsOf,
  withEnvironment,
} from './checking.ts';

describe('checking a configuration', () => {
  it('reports only the unset variable, not its consequences', () => {
    expectProblems(
      withEnvironment('baseUrl: "${URL}", product: gw'),
      '3 environments.sandbox.baseUrl: requires the environment variable URL, which is not set',
    );
  });
});

describe('with generated input', () => {
  const variables = fc.dictionary(fc.constantFrom(...Object.keys(exampleVariables)), fc.string());

  it('arbitrary text gives a configuration or ordered problems', () => {
    fc.assert(fc.property(fc.string({ unit: anyCharacter, maxLength: 200 }), variables, assertValidResult));
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'{}[]:,-&*!|>%@"\'#?\n\t ${a1'.split('')), maxLength: 60 }),
        variables,
        assertValidResult,
      ),
    );
  });

  it('so does an example with a piece cut out and another inserted', () => {
    const piece = fc.oneof(
      fc.string(),
      fc.json(),
      fc.constantFrom('null', '[]', '{}', '*a', '&a ', '${', '__proto__: 1\n', '1e999', '"'),
    );
    const cut = fc.record({
      name: fc.constantFrom(...exampleNames),
      at: fc.nat(),
      length: fc.nat(60),
      piece,
    });
    fc.assert(
      fc.property(cut, variables, ({ name, at, length, piece }, variables) => {
        const text = exampleText(name);
        const start = at % text.length;
        assertValidResult(text.slice(0, start) + piece + text.slice(start + length), variables);
      }),
    );
  });

  it('no message repeats the value of a variable, wherever it is used', () => {
    const marked = [
      'hvs.Marked-Secret',
      'https://Marked-Secret@host',
      'Marked-Secret\nx: [',
      '{Marked-Secret}',
    ];
    for (const name of exampleNames) {
      const places = scalarsOf(exampleText(name));
      for (let place = 0; place < places; place += 1) {
        const text = withScalar(exampleText(name), place, '${MARK}');
        const mark = marked[place % marked.length] ?? '';
        const problems = problemsOf(text, { ...exampleVariables, MARK: mark });
        expect(JSON.stringify(problems)).not.toContain('Marked-Secret');
      }
    }
  });

  it('no message repeats text that is not even YAML', () => {
    for (const text of [
      'a: @Marked-Secret',
      'a: *Marked-Secret',
      'a: "\\Marked-Secret"',
      'a: |Marked-Secret\n b',
      'a: [b\nMarked-Secret: c',
      "'Marked-Secret",
    ]) {
      expect(JSON.stringify(check(text))).not.toContain('Marked-Secret');
    }
  });
});

function assertValidResult(text: string, variables: Record<string, string>): void {
  const checked = check(text, variables);
  if ('config' in checked) return;
  const lines = checked.problems.map(({ line }) => line);
  expect(lines).not.toHaveLength(0);
  expect(lines).toEqual(lines.toSorted((a, b) => a - b));
  expect(lines[0]).toBeGreaterThanOrEqual(1);
  expect(lines.at(-1)).toBeLessThanOrEqual(text.split(/\r\n?|\n/).length);
}

function scalarsOf(text: string): number {
  let count = 0;
  visit(parseDocument(text), { Scalar: (position) => void (count += position === 'key' ? 0 : 1) });
  return count;
}

/** The text with its nth value replaced. */
function withScalar(text: string, place: number, value: unknown): string {
  const document = parseDocument(text);
  let count = 0;
  visit(document, {
    Scalar(position) {
      if (position === 'key') return undefined;
      count += 1;
      return count - 1 === place ? document.createNode(value) : undefined;
    },
  });
  return document.toString();
}
