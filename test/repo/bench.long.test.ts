import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { describeWith } from '../support/requires.ts';

describeWith('wrk')('npm run bench (needs the program wrk)', () => {
  it('verifies and measures every way', async () => {
    const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'bench', '--', '--quick']);
    for (const [way, method] of [
      ['naive app, HMAC', 'HMAC-SHA1'],
      ['Countersign, HMAC', 'HMAC-SHA1'],
      ['Countersign, RSA 2048', 'RSA-SHA256'],
    ]) {
      expect(stdout).toContain(`${way}: verified ${method}\n`);
      expect(stdout).toMatch(new RegExp(`\\| ${way} \\| [\\d.,]*[1-9]`));
    }
  }, 300_000);
});
