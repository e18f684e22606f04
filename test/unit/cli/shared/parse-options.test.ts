import { describe, expect, it } from '@jest/globals';
import { type OptionTable, optionsHelp, parseOptions } from '../../../../src/cli/shared/parse-options.ts';

const options = {
  file: { type: 'string', value: 'FILE', description: 'File to read' },
  'retry-after': { type: 'string', value: 'SECONDS', default: '5', description: 'Delay' },
  json: { type: 'boolean', default: false, description: 'Print JSON' },
} as const;

describe('the options block of a help', () => {
  it('aligns the descriptions, shows defaults, and ends with --help', () => {
    expect(optionsHelp(options).split('\n')).toEqual([
      'Options:',
      '  --file FILE            File to read',
      '  --retry-after SECONDS  Delay (default: 5)',
      '  --json                 Print JSON',
      '  --help                 Show this help',
    ]);
  });

  it('wraps a long description in its column', () => {
    const long: OptionTable = { x: { type: 'boolean', description: 'word '.repeat(60).trim() } };
    const [, first = '', second = ''] = optionsHelp(long).split('\n');
    expect(first.length).toBeLessThanOrEqual(110);
    expect(second.indexOf('word')).toBe(first.indexOf('word'));
  });
});

it('parseOptions applies defaults and ignores the texts of the help', () => {
  const io = { out: () => {}, err: () => {} };
  expect(parseOptions('x', ['--file', 'a'], options, '', io)).toMatchObject({
    values: { file: 'a', 'retry-after': '5', json: false },
  });
});

describe('what parseOptions rejects', () => {
  function rejected(argv: readonly string[], maxPositionals?: number): string {
    const err: string[] = [];
    const io = { out: () => {}, err: (line: string) => void err.push(line) };
    expect(parseOptions('x', argv, options, '', io, maxPositionals)).toEqual({ exit: 2 });
    return err.join('\n');
  }

  it.each([
    [['--fiel', 'a'], 'countersign x: unknown option --fiel; did you mean "--file"?'],
    [['--fiel=a-secret'], 'countersign x: unknown option --fiel; did you mean "--file"?'],
    [['-q'], 'countersign x: unknown option -q\n'],
  ])('%j has a hint without its value', (argv, text) => {
    expect(rejected(argv)).toContain(text);
    expect(rejected(argv)).not.toContain('a-secret');
  });

  it('more arguments than the command has are not repeated', () => {
    expect(rejected(['a-secret'])).toMatch(/^countersign x: unexpected positional argument\n/);
    expect(rejected(['a', 'a-secret'], 1)).not.toContain('a-secret');
  });
});
