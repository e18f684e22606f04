import { expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import { callers } from '../../src/cli/callers.ts';
import { runCommandHere } from '../support/cli.ts';
import { everything } from '../support/config.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';

const starts = harness();
const credentials = z.array(z.object({ tokenSha256: z.string() }));

const run = (...argv: string[]) => runCommandHere(callers, ...argv);

it('countersign callers token prints a token and a credential with which it is accepted, another one each time', async () => {
  const { code, out, err } = await run('token');
  const [token = '', ...yaml] = out.split('\n');
  expect([code, token]).toEqual([0, expect.stringMatching(/^[\w-]{43}$/)]);
  const caller = { name: 'a', credentials: credentials.parse(parse(yaml.join('\n'))), allow: [everything] };
  const edge = await starts.edge({ config: { callers: [caller] } });
  const statusOf = async (sent: string) =>
    (await edge.send(formRequest(paths.balance, '', [`Authorization: Bearer ${sent}`]))).status;
  expect([await statusOf(token), await statusOf(`${token}x`)]).toEqual([200, 401]);
  // The token is in one place only.
  expect([...yaml, err, edge.logText(), (await run('token')).out].join('\n')).not.toContain(token);
});

it.each([['tokn'], ['token', 'x'], ['token', '--nam', 'x']])(
  'countersign callers %s %s is rejected without printing a token',
  async (...argv) => {
    const { code, out, err } = await run(...argv);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(/^countersign callers/);
  },
);
