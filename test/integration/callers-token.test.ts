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
const entries = z.array(
  z.object({ name: z.string(), credentials: z.array(z.object({ tokenSha256: z.string() })) }),
);

const run = (...argv: string[]) => runCommandHere(callers, ...argv);

it('countersign callers token prints a token and an entry with which it is accepted', async () => {
  const { code, out } = await run('token', '--name', 'billing');
  const [token = '', ...yaml] = out.split('\n');
  expect(code).toBe(0);
  const [caller] = entries.parse(parse(yaml.join('\n')));
  const edge = await starts.edge({
    config: {
      callers: [{ name: caller?.name ?? '', credentials: caller?.credentials ?? [], allow: [everything] }],
    },
  });
  const statusOf = async (sent: string) =>
    (await edge.send(formRequest(paths.balance, '', [`Authorization: Bearer ${sent}`]))).status;
  expect([await statusOf(token), await statusOf(`${token}x`)]).toEqual([200, 401]);
  expect(edge.logText()).not.toContain(token);
});

it('countersign callers token prints one credential without --name, another one each time', async () => {
  const [first, second] = [await run('token'), await run('token')];
  const [token = '', ...yaml] = first.out.split('\n');
  expect([token, ...yaml]).toEqual([
    expect.stringMatching(/^[\w-]{43}$/),
    expect.stringMatching(/^- tokenSha256: [0-9a-f]{64}$/),
  ]);
  expect(second.out).not.toContain(token);
  // The token is in one place only.
  expect([...yaml, first.err].join('\n')).not.toContain(token);
});

it.each([['token', '--name', 'Billing Team'], ['tokn'], ['token', 'x'], ['token', '--nam', 'x']])(
  'countersign callers %s %s is rejected without printing a token',
  async (...argv) => {
    const { code, out, err } = await run(...argv);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(/^countersign callers/);
  },
);
