import { expect, it } from '@jest/globals';
import { status } from '../../src/cli/status/status.ts';
import { runCommandHere } from '../support/cli.ts';
import { harness } from '../support/harness.ts';
import { testKeys, writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();

it('a version of a key directory has one name in log, page, terminal and findings', async () => {
  const directory = starts.folder().path;
  writeKeys(directory, 'sandbox', 'acme', testKeys);
  const keys = { source: 'directory', directory, cache: { ttl: '1s' } } as const;
  const edge = await starts.edge({ config: { keys } });
  await edge.balance();
  const [line] = await edge.requestLines();
  const version = Number(line?.['keyVersion']);
  const textOf = (page: string): string => page.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  expect(textOf(await edge.statusPages())).toContain(`version ${version} In use`);
  const { out } = await runCommandHere(status, '--url', edge.adminUrl);
  expect(out).toMatch(new RegExp(`control_key +${version} +in use`));
  writeKeys(directory, 'sandbox', 'acme', { ...testKeys, controlKey: '' });
  await until(async () => {
    await edge.balance();
    return edge.logText().includes('the control key');
  });
  const unusable = Number(/"kind":"control_key","version":(\d+)/.exec(edge.logText())?.[1]);
  const { findings } = await edge.instanceStatus();
  expect(findings.map(({ summary }) => summary).join()).toContain(
    `Control key of acme in sandbox: version ${unusable} cannot be used`,
  );
});
