import { describe, expect, it } from '@jest/globals';
import { command, list, oneOf, parsed, wholeNumber } from '../../../../src/cli/shared/command.ts';
import { runCommandHere } from '../../../support/cli.ts';

const options = {
  'file FILE': 'File to read',
  'retry-after SECONDS': parsed('Delay', wholeNumber(0, 60), '5'),
  'color COLOR': parsed('Paint', oneOf(['red', 'blue'])),
  'name NAME': list('May be repeated', String),
  json: 'Print JSON',
};

/** Prints what it was given. */
const spec = { name: 'x', usage: '[FILE]\n--json', about: 'Prints.', options, maxPositionals: 1 };
const print = command(spec, (given, io) => {
  io.out(JSON.stringify(given));
  return 0;
});

describe('the help of a command', () => {
  it('has its ways to call it, what it does, aligned options with their defaults, and the exit codes', async () => {
    expect((await runCommandHere(print, '--help')).out.split('\n')).toEqual([
      'Usage: countersign x [FILE]',
      '       countersign x --json',
      '',
      'Prints.',
      '',
      'Options:',
      '  --file FILE            File to read',
      '  --retry-after SECONDS  Delay (default: 5)',
      '  --color COLOR          Paint',
      '  --name NAME            May be repeated',
      '  --json                 Print JSON',
      '  --help                 Show this help',
      '',
      'Exit codes: 0 ok, 1 failure, 2 invalid configuration or usage.',
    ]);
  });

  it('wraps what is too long for a line, a description in its column', async () => {
    const long = 'word '.repeat(60).trim();
    const wordy = command({ name: 'x', usage: '', about: long, options: { x: long } }, () => 0);
    const lines = (await runCommandHere(wordy, '--help')).out.split('\n');
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(110);
    const at = lines.findIndex((line) => line.startsWith('  --x'));
    expect(lines[at + 1]?.indexOf('word')).toBe(lines[at]?.indexOf('word'));
  });
});

describe('a command gets', () => {
  it.each([
    [['--file', 'a'], { file: 'a', 'retry-after': 5, name: [], json: false }, []],
    [['--json', 'b', '--retry-after=60'], { 'retry-after': 60, name: [], json: true }, ['b']],
    [
      ['--name', 'a', '--name', 'b', '--color', 'red'],
      { 'retry-after': 5, color: 'red', name: ['a', 'b'], json: false },
      [],
    ],
  ])('the values of %j, or else their defaults', async (argv, values, positionals) => {
    const { code, out, err } = await runCommandHere(print, ...argv);
    expect([code, err, JSON.parse(out)]).toEqual([0, '', { values, positionals }]);
  });

  it('nothing where the usage is asked for, whatever else is wrong', async () => {
    const asked = await runCommandHere(print, '--help', '--retry-after', 'soon', 'a', 'b');
    expect(asked).toEqual({ code: 0, out: expect.stringContaining('Usage: countersign x'), err: '' });
  });
});

describe('what a command rejects', () => {
  const rejected = async (...argv: readonly string[]): Promise<string> => {
    const { code, out, err } = await runCommandHere(print, ...argv);
    expect([code, out]).toEqual([2, '']);
    return err;
  };

  it.each([
    [['--fiel', 'a'], 'countersign x: unknown option --fiel; did you mean "--file"?'],
    [['--fiel=a-secret'], 'countersign x: unknown option --fiel; did you mean "--file"?'],
    [['-q'], 'countersign x: unknown option -q\n'],
    [['--retry-after', '61'], 'countersign x: --retry-after must be a whole number from 0 to 60\nSee: '],
    [['--color', 'a-secret'], 'countersign x: --color must be red or blue\nSee: countersign x --help'],
  ])('%j has a hint without its value', async (argv, text) => {
    expect(await rejected(...argv)).toContain(text);
    expect(await rejected(...argv)).not.toContain('a-secret');
  });

  it('more arguments than the command has are not repeated', async () => {
    const err = await rejected('a', 'a-secret');
    expect(err).toMatch(/^countersign x: unexpected positional argument\n/);
    expect(err).not.toContain('a-secret');
  });
});
