import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { describeWith } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const runs = [
  ['--pauses', '0,5'],
  ['--pauses', '5', '--orders', 'Vault first', '--traffic', 'payments'],
  ['--pauses', '0,1', '--orders', 'both at once,gateway first', '--with', 'hung'],
];
const few = ['--rate', '60', '--seed', '1'];

/** At the same time. With longer pauses, more instances, other events and a real Vault: `npm run rotations`. */
describeWith('openssl')('rotations in any order, seconds apart (needs the program openssl),', () => {
  it.concurrent.each(runs.map((args) => [args.join(' '), args] as const))(
    'cost no more than promised: %s',
    async (_, args) => {
      const program = [`${root}/test/rotations/main.ts`, ...few, ...args];
      const env = { ...process.env, VAULT_BIN: undefined };
      const run = promisify(execFile)(process.execPath, program, { env });
      const { stdout } = await run.catch((failed: { stdout: string }) => failed);
      expect(stdout).toMatch(/\| row \| order .* requests\/s/s);
      expect(stdout).not.toContain('BROKEN');
    },
    120_000,
  );
});
