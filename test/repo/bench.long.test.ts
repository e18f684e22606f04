import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { hasNginx } from '../bench/ways.ts';
import { describeWith } from '../support/requires.ts';

describeWith('wrk')('npm run bench (needs the program wrk)', () => {
  it('verifies and measures every way that the machine has', async () => {
    const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'bench', '--', '--quick']);
    const signing = hasNginx ? ['Countersign', 'nginx + njs'] : ['Countersign'];
    const ways = [
      ['http-proxy-middleware, unsigned', 'none'],
      ['naive app, HMAC', 'HMAC-SHA1'],
      ...signing.flatMap((name) => [
        [`${name}, HMAC`, 'HMAC-SHA1'],
        [`${name}, RSA 2048`, 'RSA-SHA256'],
      ]),
    ] as const;
    for (const [way, method] of ways) {
      expect(stdout).toContain(`${way}: verified ${method}\n`);
      // On a busy machine nginx makes no RSA signature in a second.
      if (way !== 'nginx + njs, RSA 2048')
        expect(stdout).toMatch(new RegExp(`\\| ${way.replaceAll('+', '\\+')} \\| [\\d.,]*[1-9]`));
    }
  }, 300_000);
});
