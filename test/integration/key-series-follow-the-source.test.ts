import { expect, it } from '@jest/globals';
import { status } from '../../src/cli/status/status.ts';
import { runCommandHere } from '../support/cli.ts';
import { closedUrl } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { testKeys, writeKeys } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const path = 'gateway/sandbox/acme';
const acme = { login: 'acme', kind: 'control_key' };

async function startAll() {
  const { vault, admin } = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
  const keys = vaultKeys(vault.address, {}, { cache: { ttl: '100ms' } });
  const proxy = await starts.proxy({ gateway: closedUrl, config: { keys }, random: () => 0 });
  const unusable = (): Promise<number> => proxy.counted('key_unusable_versions', acme);
  const hasSeries = async (): Promise<boolean> =>
    /countersign_key_\w+\{[^}]*login="acme"/.test(await proxy.metrics());
  return { admin, proxy, unusable, hasSeries };
}

it('without a request, series and log follow a key that is unusable, fixed, missing, back and deleted', async () => {
  const { admin, proxy, unusable, hasSeries } = await startAll();
  await admin.put(path, { control_key: '' });
  expect((await proxy.balance()).body).toContain('key-unusable');
  expect(await unusable()).toBe(1);
  await admin.put(path, { control_key: 'fixed' });
  await until(async () => (await unusable()) === 0);
  expect(await proxy.counted('key_version', acme)).toBe(2);
  expect(await proxy.counted('key_signing_version', acme)).toBe(2);

  await admin.put(path, { controlkey: 'misspelled' });
  await until(async () => (await unusable()) === 1);
  expect(await proxy.counted('key_signing_version', acme)).toBe(2);
  expect((await proxy.balance()).body).toContain('gateway-unreachable');
  const problem = 'the secret has no field control_key but controlkey, which is not read; rename it';
  expect(proxy.logLines(`${problem} (its fields: controlkey)`)).toEqual([
    expect.objectContaining({ level: 'error', login: 'acme', kind: 'control_key', version: 3 }),
  ]);

  await admin.put(path, { control_key: 'second' });
  await until(async () => (await unusable()) === 0);
  expect(await hasSeries()).toBe(true);
  await admin.deleteVersions(path, [2, 4]);
  await until(async () => !(await hasSeries()));
  expect(proxy.logLines('keys deleted in the key source')).toEqual([
    expect.objectContaining({ level: 'warn', environment: 'sandbox', login: 'acme' }),
  ]);
});

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
  expect(out).toMatch(new RegExp(`Control key +version ${version} +In use`));
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
