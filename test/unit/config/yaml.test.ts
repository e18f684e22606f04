import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { parseText } from '../../../src/config/parse-value.ts';
import { readDocument } from '../../../src/config/yaml.ts';

const read = (text: string, variables: Record<string, string> = {}) =>
  readDocument(text, (name) => variables[name]);
const messages = (text: string) => read(text).problems.map(({ line, message }) => `${line} ${message}`);

const structure = 'x"\nb: 2\n- [*a, !!int 5] # {c: 3}';

describe('reading YAML', () => {
  it.each<[string, string, Record<string, string>, object]>([
    ['are replaced within a text', 'a: https://${H}:${P}/', { H: 'h', P: '1' }, { a: 'https://h:1/' }],
    ['never add structure', 'a: "${V}"\nc: ${V}', { V: structure }, { a: structure, c: structure }],
    ['are not replaced in the value of one', 'a: ${V}', { V: '${W} $${' }, { a: '${W} $${' }],
    ['are none behind another $', 'a: $${NAME}', { NAME: 'x' }, { a: '${NAME}' }],
    ['are not replaced in keys', '"${V}": 1', { V: 'x' }, { '${V}': 1 }],
    ['may be empty', 'a: "${X}"', { X: '' }, { a: '' }],
  ])('variables %s', (_, text, variables, value) => {
    expect(read(text, variables)).toMatchObject({ content: { value }, problems: [] });
  });

  it('reports which variable is not set, and where', () => {
    expect(read('a:\n  - b: 1\n  - c: "${X} and ${Y}"').problems).toEqual([
      { path: 'a[1].c', line: 3, message: 'requires the environment variable X, which is not set' },
      { path: 'a[1].c', line: 3, message: 'requires the environment variable Y, which is not set' },
    ]);
  });

  it.each(['a: ${', 'a: ${1X}', 'a: ${X-Y}', 'a: ${X:-fallback}', 'a: ${}'])(
    'says that %s begins a variable and is none',
    (text) => {
      expect(messages(text)).toEqual([expect.stringContaining('1 has "${" without a variable')]);
    },
  );

  it.each([
    ['a: { b: ${X}, c: 1 }', [1]],
    ['a: [${X}, "${X}", ${Y}]', [1, 1]],
    ['a: {\n  b: 1,\n  c: http://${X}/\n}\nd: [', [3]],
    ['a:\n  - { b: { c: ${X} } }\nd: ${X}', [2]],
  ])('says to quote a variable in flow style, and nothing else: %s', (text, lines) => {
    expect(messages(text)).toEqual(lines.map((line) => expect.stringMatching(`^${line} .*quote it, "`)));
  });

  it('says it once for a line', () => {
    expect(parseText('a: { b: ${X}, c: ${Y} }', z.unknown())).toEqual({
      problems: [expect.objectContaining({ line: 1 })],
    });
  });

  it.each(['a: ${X}\nb: {', 'a: { b: "${X}" ]', "a: ['${X}', {]", 'a: ${X}\n\tb: 1'])(
    'says nothing of quotes where the mistake is another one: %s',
    (text) => {
      expect(messages(text).join()).not.toContain('quote it');
      expect(messages(text)).not.toEqual([]);
    },
  );

  it('uses only the core schema: yes, dates and merge keys are plain text', () => {
    expect(read('%YAML 1.1\n---\na: yes\nb: 2020-01-01\n<<: { c: 0x10 }').content).toEqual({
      value: { a: 'yes', b: '2020-01-01', '<<': { c: 16 } },
    });
  });

  it.each([
    ['a duplicate key', 'a: 1\na: 2', '2 duplicate key: remove one of the two'],
    ['a tab', 'a:\n\tb: 1', '2 is indented with a tab: use spaces'],
    ['a tag', 'a: 1\nb: !!binary aGk=', '2 has a tag (!name): remove it, or put the value in quotes'],
    ['a complex key', 'a: 1\n? [b]\n: 2', '2 key must be a string: put it in quotes'],
    ['a second document', 'a: 1\n---\nb: 2', '2 starts a second document: remove the "---"'],
    ['a dangling alias', 'a: 1\nb: *c', '2 refers to an anchor (&name) that is not defined above it'],
    [
      'a reserved character',
      'b: @c',
      '1 starts with a character that YAML reserves: put the value in quotes',
    ],
    ['__proto__', 'a: 1\nb:\n  __proto__: 1', '3 is not a valid name'],
  ])('reports %s with its line', (_, text, message) => {
    expect(messages(text)).toEqual([message]);
  });

  it.each([
    ['a quote in a list that is not closed', 'a: 1\nb: ["c, d]\ne:\n  - f: g\n', 2],
    ['a bracket that is not closed', 'a: 1\nb:\n  - c: [d, e\n\n  - f: g\n    h: i', 3],
    ['a brace that is not closed at the end', 'a: 1\nb: { c: 1\n\n', 2],
    ['a bracket too many', `a: 1\nb: [c]]\n${'d: [e]\n'.repeat(30)}`, 2],
    ['a missing colon', 'a\n  b: 1\n  c: 2', 1],
    ['a missing space', 'a:\n  b: 1\n  c:2\n  d: 3', 3],
    ['a missing dash', 'a:\n  - b: [1]\n\n  # Why.\n  c: 1\n    d: 1', 5],
    ['a line that is indented too little', 'a:\n  b:\n    c: 1\n   # Why.\n   d: 2\n', 5],
  ])('reports only the first mistake, with the line of its cause: %s', (_, text, line) => {
    expect(messages(text)).toEqual([expect.stringMatching(`^${line} `)]);
  });

  it('continues after a duplicate key', () => {
    const { problems, content, lineOf } = read('a: 1\na: ${X}');
    expect(problems.map(({ line }) => line)).toEqual([2, 2]);
    // The last one counts.
    expect([content, lineOf(['a'])]).toEqual([{ value: { a: '${X}' } }, 2]);
  });

  it('rejects aliases that multiply', () => {
    const levels = Array.from(
      { length: 9 },
      (_, level) => `b${level}: &b${level} [${`*b${level - 1},`.repeat(9)}]`,
    );
    const text = ['b: &b-1 [1]', ...levels].join('\n');
    expect(messages(text)).toEqual([expect.stringContaining('expands too many aliases')]);
  });

  it('shares a list through an alias, with the line of the list', () => {
    const { content, lineOf } = read('a: &list\n  - 1\n  - 2\nb: *list');
    expect(content).toEqual({ value: { a: [1, 2], b: [1, 2] } });
    expect(lineOf(['b', 1])).toBe(3);
  });

  it.each([500, 20_000])('survives %i levels of nesting', (levels) => {
    const problems = messages(`a: ${'['.repeat(levels)}${']'.repeat(levels)}`);
    expect(problems).toEqual(levels === 500 ? [] : ['1 is nested too deeply']);
  });

  it.each([
    [['a'], 1],
    [['a', 'b', 1], 4],
    [['a', 'b', 1, 'missing'], 4],
    [['missing'], 1],
  ])('finds the line of %j', (path, line) => {
    expect(read('a:\n  b:\n    - 1\n    - c: 2\n').lineOf(path)).toBe(line);
  });
});
