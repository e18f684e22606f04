import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { check } from '../../src/cli/check/check.ts';
import { explain } from '../../src/cli/explain/explain.ts';
import { keys } from '../../src/cli/keys/keys.ts';
import { runCommandHere } from '../support/cli.ts';
import { KeysTestEnvironment, newControlKey, oldKey } from '../support/keys-test-environment.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const environment = new KeysTestEnvironment();
let config: string;
let token: string;

/** The configuration of a pod: its files and variables do not exist here. */
beforeAll(async () => {
  await environment.open();
  await environment.put({ control_key: newControlKey, private_key: oldKey });
  const { address } = environment.admin;
  config = environment.writeConfig('pod.yaml', {
    proxy: { tls: { certFile: '/pod/tls.crt', keyFile: '/pod/tls.key' } },
    keys: {
      source: 'vault',
      vault: { address, auth: { method: 'approle', roleId: '${POD_ROLE}', secretIdFile: '/pod/secret-id' } },
    },
    callers: [
      {
        name: 'billing',
        credentials: [{ tokenSha256: '${POD_TOKEN_SHA256}' }],
        allow: [{ environments: ['*'], operations: ['manager-balance'], logins: ['acme'] }],
      },
    ],
  });
  token = environment.folder.file('operator-token', rootToken);
});
afterAll(() => environment.close());

/** Both outputs as one text. */
async function run(
  ...command: Parameters<typeof runCommandHere>
): Promise<{ code: number | null; text: string }> {
  const { code, out, err } = await runCommandHere(...command);
  return { code, text: [out, err].filter((text) => text !== '').join('\n') };
}

const form = (): string => environment.folder.file('form', '');
const target = ['--target', '/sandbox/gw/api/v2/get-balance/manager/acme'] as const;

it("explain uses the operator's token with the configuration of the pod", async () => {
  const argv = [...target, '--form', form(), '--config', config, '--token-file', token];
  const { code, text } = await run(explain, ...argv);
  expect([code, text]).toEqual([
    0,
    expect.stringContaining('Authorization: OAuth oauth_consumer_key="acme"'),
  ]);
});

it("check --online uses the operator's token with the configuration of the pod", async () => {
  const { code, text } = await run(check, '--online', config, '--token-file', token, '--json');
  expect([code, JSON.parse(text)]).toMatchObject([0, { ok: true }]);
});

it("keys list uses the operator's token with the configuration of the pod", async () => {
  const argv = [
    'list',
    '--config',
    config,
    '--environment',
    'sandbox',
    '--login',
    'acme',
    '--token-file',
    token,
  ];
  expect(await run(keys, ...argv)).toMatchObject({ code: 0 });
});

it('without a token of its own, a command that reads keys requires the variables of its login', async () => {
  const { code, text } = await run(keys, 'list', '--config', config, '--environment', 'sandbox');
  expect(code).toBe(2);
  expect(text).toContain('requires the environment variable POD_ROLE');
  // Credentials of callers are not used.
  expect(text).toMatch(/\n1 problem$/);
});

it('check without a token requires the files and variables of the pod', async () => {
  const { code, text } = await run(check, config);
  expect(code).toBe(2);
  expect(text).toContain('requires the environment variable POD_TOKEN_SHA256');
  expect(text).toContain('requires the environment variable POD_ROLE');
});

it('a variable that a command uses must be set', async () => {
  const other = environment.writeConfig('used.yaml', {
    environments: { sandbox: { baseUrl: '${POD_GATEWAY}', product: 'gw' } },
  });
  const { code, text } = await run(check, '--online', other, '--token-file', token);
  expect([code, text]).toEqual([2, expect.stringContaining('requires the environment variable POD_GATEWAY')]);
});

it.each([
  [['--token-file', 'x'], '--token-file requires --online'],
  [['--ca-file', 'x'], '--ca-file requires --online'],
  [['--json'], '--json requires --online or --against'],
])('check rejects %j without --online', async (argv, message) => {
  const { code, text } = await run(check, config, ...argv);
  expect([code, text]).toEqual([2, expect.stringContaining(`countersign check: ${message}\n`)]);
});

it('--ca-file replaces the CA of the pod', async () => {
  const { address } = environment.admin;
  const vault = { address, auth: { method: 'token' as const, tokenFile: token }, caFile: '/pod/ca.crt' };
  const withCa = environment.writeConfig('ca.yaml', { keys: { source: 'vault', vault } });
  const argv = [...target, '--form', form(), '--config', withCa, '--token-file', token];
  expect(await run(explain, ...argv)).toMatchObject({
    code: 1,
    text: expect.stringContaining('/pod/ca.crt'),
  });
  const ca = environment.folder.file('ca.crt', '');
  expect(await run(explain, ...argv, '--ca-file', ca)).toMatchObject({ code: 0 });
});
