import { spawn, spawnSync } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, describe, expect, it } from '@jest/globals';
import { callers } from '../../../src/cli/callers.ts';
import {
  describeListenError,
  exitCode,
  operatorMessage,
  systemErrorMessage,
  unexpectedErrorMessage,
} from '../../../src/cli/shared/cli-error.ts';
import { command, list, oneOf, parsed, wholeNumber } from '../../../src/cli/shared/command.ts';
import { configFileOf, settingOptions, withSettings } from '../../../src/cli/shared/config-file.ts';
import { table } from '../../../src/cli/shared/table.ts';
import { configSchema } from '../../../src/config/schema.ts';
import { ProxyError } from '../../../src/errors.ts';
import { catchSignals } from '../../../src/service/signals.ts';
import { runCommandHere } from '../../support/cli.ts';
import { Folder } from '../../support/folder.ts';
import { listen } from '../../support/listening.ts';
import { itWhere } from '../../support/requires.ts';
import { root } from '../../support/sources.ts';
import { until } from '../../support/until.ts';

describe('errors', () => {
  const folder = new Folder();
  afterAll(() => folder.remove());

  const errorOf = (work: Promise<unknown>): Promise<unknown> =>
    work.then(undefined, (error: unknown) => error);

  function listenError(port: number, host: string): Promise<unknown> {
    const server = createServer();
    return new Promise((resolve) => {
      server.once('error', resolve).listen(port, host, () => server.close(() => resolve(undefined)));
    });
  }

  it('a missing file and one that is there are named with what to do', async () => {
    const missing = folder.at('missing');
    expect(systemErrorMessage(await errorOf(readFile(missing)))).toBe(
      `${missing} does not exist. Check the path.`,
    );
    expect(systemErrorMessage(await errorOf(mkdir(folder.path)))).toBe(
      `${folder.path} cannot be read or written (EEXIST).`,
    );
  });

  it('a port in use and a foreign address are named with what to do', async () => {
    const { port, close } = await listen(createServer());
    const inUse = await listenError(port, '127.0.0.1');
    const foreign = await listenError(port, '192.0.2.1');
    await close();
    const sentence = `127.0.0.1:${port} is in use.`;
    expect(systemErrorMessage(inUse)).toBe(`${sentence} Stop the other process, or choose another port.`);
    const options = new Map([
      [port, '--port'],
      [port + 1, '--admin-port'],
    ]);
    expect(describeListenError(inUse, options)).toBe(`${sentence} Choose another port with --port.`);
    expect(describeListenError(inUse, new Map(), true)).toBe(systemErrorMessage(inUse));
    expect(describeListenError(foreign, options)).toBe(
      `192.0.2.1:${port} is not an address of this machine. Choose another host.`,
    );
  });

  it('an operator sees the cause of an error that a caller does not', () => {
    const cause = new Error('Vault is sealed');
    expect(operatorMessage(new ProxyError('key-source-unavailable', 'try again', { cause }))).toBe(
      'Vault is sealed',
    );
    expect(operatorMessage(new ProxyError('key-missing', 'the login has no key'))).toBe(
      'the login has no key',
    );
    expect(operatorMessage(cause)).toBe('Vault is sealed');
  });

  it.each(['x', undefined, Object.assign(new Error('x'), { code: 'ECONNREFUSED', syscall: 'connect' })])(
    'another error is left as it is: %p',
    (error) => {
      expect(systemErrorMessage(error)).toBeUndefined();
    },
  );

  it('a bug is a sentence with its place, without the message, which may hold data', () => {
    const text = unexpectedErrorMessage(new TypeError('card 4111111111111111'));
    expect(text).toMatch(/^Internal error \(TypeError at .*shared\.test\.ts:\d+:\d+\)?\)\. This is a bug /);
    expect(text).not.toContain('4111');
    expect(unexpectedErrorMessage('4111')).toMatch(/^Internal error \(error\)\. /);
    const named = Object.assign(new Error('x'), { name: 'card 4111' });
    expect(unexpectedErrorMessage(named)).toMatch(/^Internal error \(error at /);
  });
});

describe('a command', () => {
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

  it('has as its help its ways to call it, what it does, aligned options with their defaults, and the exit codes', async () => {
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

  it('wraps in its help what is too long for a line, a description in its column', async () => {
    const long = 'word '.repeat(60).trim();
    const wordy = command({ name: 'x', usage: '', about: long, options: { x: long } }, () => 0);
    const lines = (await runCommandHere(wordy, '--help')).out.split('\n');
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(110);
    const at = lines.findIndex((line) => line.startsWith('  --x'));
    expect(lines[at + 1]?.indexOf('word')).toBe(lines[at]?.indexOf('word'));
  });

  it.each([
    [['--file', 'a'], { file: 'a', 'retry-after': 5, name: [], json: false }, []],
    [['--json', 'b', '--retry-after=60'], { 'retry-after': 60, name: [], json: true }, ['b']],
    [
      ['--name', 'a', '--name', 'b', '--color', 'red'],
      { 'retry-after': 5, color: 'red', name: ['a', 'b'], json: false },
      [],
    ],
  ])('gets the values of %j, or else their defaults', async (argv, values, positionals) => {
    const { code, out, err } = await runCommandHere(print, ...argv);
    expect([code, err, JSON.parse(out)]).toEqual([0, '', { values, positionals }]);
  });

  it('gets nothing where its help is asked for, whatever else is wrong', async () => {
    const asked = await runCommandHere(print, '--help', '--retry-after', 'soon', 'a', 'b');
    expect(asked).toEqual({ code: 0, out: expect.stringContaining('Usage: countersign x'), err: '' });
  });

  const rejected = async (...argv: readonly string[]): Promise<string> => {
    const { code, out, err } = await runCommandHere(print, ...argv);
    expect([code, out]).toEqual([2, '']);
    return err;
  };

  it.each([
    [['--fiel', 'a'], 'countersign x: unknown option --fiel; did you mean "--file"?'],
    [['--fiel=a-secret'], 'countersign x: unknown option --fiel; did you mean "--file"?'],
    [['-q'], 'countersign x: unknown option -q\n'],
    [['a', 'a-secret'], 'countersign x: unexpected positional argument\n'],
    [['a', 'fiel'], 'countersign x: unexpected positional argument; did you mean "--file"?\n'],
    [['--retry-after', '61'], 'countersign x: --retry-after must be a whole number from 0 to 60\nSee: '],
    [['--color', 'a-secret'], 'countersign x: --color must be red or blue\nSee: countersign x --help'],
  ])('rejects %j with a hint without its value', async (argv, text) => {
    expect(await rejected(...argv)).toContain(text);
    expect(await rejected(...argv)).not.toContain('a-secret');
  });
});

describe('settings', () => {
  const config = configSchema.parse({
    proxy: { port: 1 },
    admin: { port: 2 },
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
    keys: { source: 'directory', directory: 'keys' },
  });
  const lookUpIn = (variables: Readonly<Record<string, string>>) => (name: string) => variables[name];

  /** What a command prints with these options and environment variables: ports and log level, or the problems. */
  async function settingsOf(argv: readonly string[], variables: Readonly<Record<string, string>>) {
    const run = command({ name: 'test', options: settingOptions, usage: '', about: '' }, ({ values }, io) => {
      const { proxy, admin, log } = withSettings(config, values);
      io.out([proxy.port, admin.port, log.level].join());
      return 0;
    });
    const before = { ...process.env };
    Object.assign(process.env, variables);
    try {
      const { out, err } = await runCommandHere(run, ...argv);
      return `${out}${err}`.split('\n');
    } finally {
      process.env = before;
    }
  }

  const all = { COUNTERSIGN_PROXY_PORT: '3', COUNTERSIGN_ADMIN_PORT: '4', COUNTERSIGN_LOG_LEVEL: 'warn' };

  it.each([
    ['of the file', [], { COUNTERSIGN_PROXY_PORT: '', COUNTERSIGN_LOG_LEVEL: '' }, '1,2,info'],
    ['of the variables rather than of the file', [], all, '3,4,warn'],
    ['of one variable', [], { COUNTERSIGN_ADMIN_PORT: '0' }, '1,0,info'],
    [
      'of the options rather than of the variables',
      ['--port', '5', '--admin-port', '6', '--log-level', 'debug'],
      all,
      '5,6,debug',
    ],
    ['of one option', ['--port', '5'], all, '5,4,warn'],
  ])('ports and log level are those %s', async (_, argv, variables, expected) => {
    expect(await settingsOf(argv, variables)).toEqual([expected]);
  });

  it.each([
    [['--port', 'a-secret'], all, '--port must be a port from 0 to 65535; 0 picks a free one'],
    [[], { COUNTERSIGN_ADMIN_PORT: '65536' }, 'COUNTERSIGN_ADMIN_PORT must be a port from 0 to 65535; 0 '],
    [[], { COUNTERSIGN_LOG_LEVEL: 'loud' }, 'COUNTERSIGN_LOG_LEVEL must be one of debug, info, warn, error'],
  ])(
    'that are invalid are reported by the name under which they were set, without the value: %j %j',
    async (argv, variables, problem) => {
      const [line] = await settingsOf(argv, variables);
      expect(line).toContain(`countersign test: ${problem}`);
      expect(line).not.toMatch(/a-secret|loud|65536/);
    },
  );

  it('the configuration file is that of the option, else of the variable', () => {
    const lookUp = lookUpIn({ COUNTERSIGN_CONFIG: 'b.yaml' });
    expect(configFileOf('a.yaml', lookUp)).toBe('a.yaml');
    expect(configFileOf(undefined, lookUp)).toBe('b.yaml');
    expect(configFileOf(undefined, lookUpIn({}))).toBeUndefined();
    // It is given, and no file: the demo must not run in its place.
    expect(configFileOf('', lookUp)).toBe('');
    expect(() => configFileOf(undefined, lookUpIn({ COUNTERSIGN_CONFIG: '' }))).toThrow(
      'COUNTERSIGN_CONFIG is empty',
    );
  });
});

const hasScript = spawnSync('script', ['--version']).error === undefined;

describe('a prompt at a terminal', () => {
  /** What a terminal shows, at whose prompt these pieces are typed or pasted. The last line is one without `BEGIN`. */
  async function shownFor(pieces: readonly string[]): Promise<string> {
    const program = `
      import { promptSecret } from './src/cli/keys/import.ts';
      const text = await promptSecret(() => process.stdout.write('Key: '), /^(?!BEGIN)/).catch(String);
      process.stdout.write(' is ' + Buffer.from(text).toString('hex'));`;
    const command = `"${process.execPath}" --input-type=module -e "$PROGRAM"`;
    const env = { ...process.env, PROGRAM: program };
    const child = spawn('script', ['-qec', command, '/dev/null'], { cwd: root, env });
    const closed = new Promise((resolve) => child.once('close', resolve));
    let shown = '';
    child.stdout.on('data', (text: Buffer) => (shown += String(text)));
    await until(() => shown.includes('Key: '));
    for (const piece of pieces) {
      child.stdin.write(piece);
      await wait(300);
    }
    await closed;
    return shown;
  }

  itWhere(hasScript, 'script is not installed (Debian package bsdutils)').each([
    ['a line, with backspace', ['kez\u007fy\r'], 'key\n'],
    ['lines until the last one', ['BEGIN\r', 'END\r'], 'BEGIN\nEND\n'],
    ['a whole paste, so that no part of it reaches the shell', ['first\rsecond\r'], 'first\nsecond\n'],
    ['nothing after Ctrl-C', ['key\u0003'], 'CliError: Interrupted. Nothing was written.'],
  ])('reads %s, and shows none of it', async (_, pieces, text) => {
    expect(await shownFor(pieces)).toBe(`Key:  is ${Buffer.from(text).toString('hex')}`);
  });
});

describe('a table', () => {
  it('makes columns as wide as their content', () => {
    const rows = ['wide x end', 'y  '].map((row) => row.split(' '));
    expect(table(['A', 'LONG', 'LAST'], rows)).toEqual(['A     LONG  LAST', 'wide  x     end', 'y']);
  });

  it('breaks the last column between words, so that no line has more than 100 characters', () => {
    const lines = table(['NAME', 'TEXT'], [['name', 'word '.repeat(60).trim()]]);
    expect(lines.length).toBe(5);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100);
    expect(lines.slice(2).every((line) => line.startsWith('      word'))).toBe(true);
    expect(lines.join(' ').match(/word/g)?.length).toBe(60);
  });

  it('has the last column below a row that leaves it too little space, and breaks no word', () => {
    const [wide, long] = ['x'.repeat(90), 'y'.repeat(64)];
    const rows = [long, 'two words that need more', 'short'].map((text) => [wide, text]);
    expect(table(['A', 'B'], rows).slice(1)).toEqual([
      wide,
      `    ${long}`,
      wide,
      '    two words that need more',
      `${wide}  short`,
    ]);
    expect(table(['A', 'B'], [['x', long]], 40)).toEqual(['A  B', 'x', `    ${long}`]);
  });

  it('takes as long as its text is, however many words or rows another server sent', () => {
    const start = performance.now();
    const wrapped = table(['A', 'B'], [['', 'a '.repeat(1_000_000)]]);
    expect(wrapped.length).toBeGreaterThan(20_000);
    expect(performance.now() - start).toBeLessThan(10_000);
    const rows = Array.from({ length: 200_000 }, () => ['x', 'y']);
    expect(table(['A', 'B'], rows)).toHaveLength(200_001);
  });
});

it('does not print the message of an unexpected error, which may hold the token', async () => {
  const errors: string[] = [];
  const tokens: string[] = [];
  const out = (line: string): void => {
    tokens.push(line);
    throw new TypeError(`cannot print ${line}`);
  };

  const exit = await callers(['token'], { out, err: (line) => errors.push(line) }, catchSignals(false));

  expect(exit).toBe(exitCode.failed);
  expect(errors.join('\n')).toMatch(/^countersign callers token: Internal error \(TypeError/m);
  expect(tokens).toHaveLength(1);
  expect(errors.join('\n')).not.toContain(tokens[0]);
});
