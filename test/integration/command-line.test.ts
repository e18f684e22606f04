import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { run } from '../support/cli.ts';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';

function spawn(...argv: string[]): Promise<{ code: unknown; out: string; err: string }> {
  return start(process.execPath, [join(root, 'src/main.ts'), ...argv]);
}

function start(program: string, argv: string[]): Promise<{ code: unknown; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(program, argv, (error, out, err) => resolve({ code: error?.code ?? 0, out, err }));
  });
}

it('countersign --version prints the version of package.json', async () => {
  const { version }: { version: string } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  expect(await spawn('--version')).toEqual({ code: 0, out: `${version}\n`, err: '' });
});

it('npx countersign runs the sources of a checkout, built or not', async () => {
  const { code, out } = await start(join(root, 'bin/countersign'), ['--help']);
  expect({ code, out: out.trimEnd() }).toEqual({ code: 0, out: (await run([])).out });
});

const commands = 'serve demo simulate status check explain keys payments audit callers'.split(' ');

it('countersign without a command lists the commands', async () => {
  const { code, out } = await run([]);
  expect(code).toBe(0);
  for (const name of commands) {
    expect(out).toMatch(new RegExp(`^  ${name} `, 'm'));
  }
});

it('countersign rejects an unknown command with exit code 2', async () => {
  const { code, out, err } = await spawn('__proto__');
  expect([code, out]).toEqual([2, '']);
  expect(err).toContain('See: countersign --help');
});

it.each([
  [['serv'], 'countersign: unknown command "serv"; did you mean "serve"?'],
  [['help'], 'countersign: unknown command "help"; did you mean "--help"?'],
  [['keys', 'lst'], 'countersign keys: unknown subcommand "lst"; did you mean "list"?'],
  [['callers', 'tokens'], 'countersign callers: unknown subcommand "tokens"; did you mean "token"?'],
])('countersign %j suggests what was meant', async (argv, text) => {
  const { code, err } = await run(argv);
  expect([code, err.split('\n')[0]]).toEqual([2, text]);
});

it.each([
  [
    ['explain', '--target', '/sandbox/gw/api/v4/transfer/1', '--form', 'nowhere'],
    'nowhere does not exist. Check the path.',
  ],
  [['simulate', '--keys', 'nowhere'], 'countersign simulate: nowhere does not exist. Check the path.'],
  [
    ['simulate', '--keys', root, '--scenario', root],
    `countersign simulate: ${root} is a directory. Name a file.`,
  ],
])('countersign %j says in a sentence which file it cannot read', async (argv, text) => {
  const { code, err } = await run(argv);
  expect(code).toBeGreaterThan(0);
  expect(err.replace(/\nSee: .*/, '')).toBe(text);
});

itWhere(existsSync('/proc/self/mem'), 'there is no file that can be opened but not read')(
  'countersign never ends with a stack',
  async () => {
    const { code, err } = await spawn('check', '/proc/self/mem');
    expect([code, err]).toEqual([1, 'countersign check: /proc/self/mem cannot be read or written (EIO).\n']);
  },
);

const subcommands = ['demo rotate', 'keys list', 'payments query', 'payments show'];
it.each([...commands, ...subcommands])('countersign %s has a help', async (name) => {
  const { code, out } = await run([...name.split(' '), '--help']);
  expect(code).toBe(0);
  expect(out).toContain(`Usage: countersign ${name}`);
});
