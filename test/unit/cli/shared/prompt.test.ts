import { spawn, spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { promptSecret, type Terminal } from '../../../../src/cli/keys/import.ts';
import { itWhere } from '../../../support/requires.ts';
import { root } from '../../../support/sources.ts';

/** A terminal at which these pieces are typed or pasted. */
function terminal(...pieces: readonly string[]) {
  const modes: boolean[] = [];
  const given: Terminal = {
    setRawMode: (raw) => modes.push(raw),
    setEncoding: () => {},
    async *[Symbol.asyncIterator]() {
      yield* pieces;
    },
  };
  return { given, modes };
}

const line = (text: string) => text.endsWith('\n');

describe('promptSecret', () => {
  it.each([
    [['k', 'e', 'y', '\r'], 'key\n'],
    [['kez\u007fy\r'], 'key\n'],
    [['ke', 'x\by', '\r', 'not read'], 'key\n'],
    [['key\u0004rest'], 'key'],
    [['key'], 'key'],
  ])('reads %j', async (pieces, text) => {
    expect(await promptSecret(terminal(...pieces).given, () => {}, line)).toBe(text);
  });

  it('reads a whole paste, so that no part of it reaches the shell', async () => {
    expect(await promptSecret(terminal('first\rsecond\r').given, () => {}, line)).toBe('first\nsecond\n');
  });

  it('prompts after echo is off, and turns it on again afterwards', async () => {
    const { given, modes } = terminal('key\r');
    const atPrompt: boolean[] = [];
    await promptSecret(given, () => atPrompt.push(...modes), line);
    expect({ atPrompt, modes }).toEqual({ atPrompt: [true], modes: [true, false] });
  });

  it('aborts on Ctrl-C, and turns echo on again', async () => {
    const { given, modes } = terminal('ke\u0003');
    await expect(promptSecret(given, () => {}, line)).rejects.toThrow('Interrupted. Nothing was written.');
    expect(modes).toEqual([true, false]);
  });

  const hasScript = spawnSync('script', ['--version']).error === undefined;
  const itAtTerminal = itWhere(hasScript, 'script is not installed (Debian package bsdutils)');

  itAtTerminal('shows nothing of what is typed at a real terminal', async () => {
    const program = `
      import { promptSecret } from './src/cli/keys/import.ts';
      const text = await promptSecret(process.stdin, () => process.stdout.write('Key: '), (t) => t.endsWith('\\n'));
      process.stdout.write(' length ' + text.length);`;
    const command = `"${process.execPath}" --input-type=module -e "$PROGRAM"`;
    const env = { ...process.env, PROGRAM: program };
    const child = spawn('script', ['-qec', command, '/dev/null'], { cwd: root, env });
    let shown = '';
    child.stdout.on('data', (text: Buffer) => {
      if (!shown.includes('Key: ') && String(text).includes('Key: ')) child.stdin.write('planted-key\r');
      shown += String(text);
    });
    await new Promise((resolve) => child.once('close', resolve));
    expect(shown).toContain('length 12');
    expect(shown).not.toContain('planted');
  });
});
