import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { explain } from '../../src/cli/explain/explain.ts';
import { runCommandHere } from '../support/cli.ts';
import { Folder } from '../support/folder.ts';
import { otherBaseString } from '../support/oauth-sign.ts';
import { testControlKey, testKeys, testPrivateKey, writeKeys } from '../support/service.ts';
import { publicKeyOf } from '../support/vectors.ts';
import { verifyAuthorization } from '../support/verify.ts';

const card = '4111111111111111';
const form = `client_orderid=i-7&amount=10.42&credit_card_number=${card}&cvv2=987&order_desc=a%20b*`;
const transfer = '/sandbox/gw/api/v4/transfer/1234';
const url = 'https://gateway.test/gw/api/v4/transfer/1234';
const fixed = ['--nonce', '7d8f3e4a', '--timestamp', '1700000000'];
const theirs = otherBaseString('POST', url, [
  ...new URLSearchParams(form),
  ['oauth_consumer_key', 'acme'],
  ['oauth_nonce', '7d8f3e4a'],
  ['oauth_signature_method', 'RSA-SHA256'],
  ['oauth_timestamp', '1700000000'],
  ['oauth_version', '1.0'],
]);

const folder = new Folder();
beforeAll(() => {
  for (const name of ['sandbox', 'local', 'imposter']) writeKeys(folder.at('keys'), name, 'acme', testKeys);
  folder.file(
    'config.yaml',
    `environments:
  sandbox: { baseUrl: https://gateway.test, product: gw, endpoints: { "1234": acme } }
  local: { baseUrl: "http://[::1]:8090", product: gw, endpoints: { "1234": acme } }
  imposter: { baseUrl: https://localhost.gateway.test, product: gw, endpoints: { "1234": acme } }
keys: { source: directory, directory: keys }
operations:
  return:
    path: /api/v2/return/{endpoint}
    signature: SHA1-control
    loginFrom: header
    control: [login, client_orderid, orderid, amount]
    parameters: { amount: { minorUnitsOf: currency } }
`,
  );
});
afterAll(() => folder.remove());

function run(target: string, body: string, ...more: string[]) {
  const argv = [
    '--config',
    folder.at('config.yaml'),
    '--target',
    target,
    '--form',
    folder.file('form', body),
  ];
  return runCommandHere(explain, ...argv, ...more);
}

/** Without the line of the key: its time and version may have any digits. */
const withoutKey = (out: string): string => out.replace(/^Key .*$/m, '');

describe('countersign explain', () => {
  it.each([
    [
      transfer.replace('sandbox', 'local'),
      form,
      url.replace('https://gateway.test', 'http://[::1]:8090'),
      { publicKey: publicKeyOf('rsa-2048-public.pem') },
    ],
    [
      '/sandbox/gw/api/v2/get-balance/manager/acme',
      'balance-name=Main%20USD',
      'https://gateway.test/gw/api/v2/get-balance/manager/acme',
      { controlKey: testControlKey },
    ],
  ] as const)('prints a request that an independent verifier accepts: %s', async (target, body, at, key) => {
    const { code, out } = await run(target, body, '--curl', '--show-values', ...fixed);
    const authorization = /-H 'Authorization: (.*)' \\$/m.exec(out)?.[1];
    const data = /--data-raw '(.*)'$/m.exec(out)?.[1] ?? '';
    expect(code).toBe(0);
    verifyAuthorization({ method: 'POST', url: at, authorization, body: Buffer.from(data) }, key);
  });

  it('hides the signature of a payment, with which anyone could make it', async () => {
    for (const environment of ['sandbox', 'imposter']) {
      const target = transfer.replace('sandbox', environment);
      const { code, out } = await run(target, form, '--curl', '--show-values', ...fixed);
      expect(code).toBe(0);
      expect(out).toContain('oauth_timestamp="1700000000", oauth_version="1.0", oauth_signature="hidden"');
      expect(out).toContain('The signature is hidden');
      expect(out).not.toContain('curl -X');
    }
    const local = await run(transfer.replace('sandbox', 'local'), form, '--curl', ...fixed);
    expect(local.out).toMatch(/oauth_signature="[\w%]{300,}"/);
    expect(local.out).not.toContain('hidden');
    expect(local.out).toContain('&credit_card_number=xxxxxxxxxxxxxxxx&');
    expect(withoutKey(local.out)).not.toMatch(/4111|987/);
    // A query changes nothing at the gateway.
    const status = transfer.replace('transfer', 'status');
    const query = await run(status, 'login=acme&client_orderid=i-7', '--curl', ...fixed);
    expect(query.out).toMatch(/curl -X POST 'https:\/\/gateway\.test.*\n.*oauth_signature="[\w%]{300,}"/);
  });

  it('redacts card data in every step, and shows no key', async () => {
    const { out } = await run(transfer, form, '--curl', ...fixed);
    expect(out).toMatch(/amount=10\.42\n *credit_card_number=x{16}\n/);
    expect(withoutKey(out)).not.toMatch(/4111|987/);
    expect(out).not.toContain(testControlKey);
    for (const line of testPrivateKey.split('\n').slice(1, -2)) expect(out).not.toContain(line);
  });

  it('prints the base string that another library makes', async () => {
    const { out } = await run(transfer, form, '--show-values', ...fixed);
    expect(out).toContain(`Base string\n  ${theirs}\n`);
    expect((await run(transfer, form)).out).toMatch(/oauth_timestamp=\d{10}\n/);
  });

  it.each([
    ['malformed-form', `${form}\n`],
    ['too-large', `a=${'b'.repeat(65_536)}`],
    ['reserved-parameter', 'oauth_nonce=x'],
    ['parameter-invalid', 'amount=1'],
    ['unknown-route', 'a=1', '/nowhere/gw/api/v4/transfer/1234'],
    ['key-missing', 'login=beta&client_orderid=1', '/sandbox/gw/api/v4/transfer/1'],
  ])(
    'shows that the proxy would reject a request as %s, without its card (%#)',
    async (reason, body, target = transfer) => {
      const { code, out, err } = await run(target, body, ...fixed);
      expect([code, out]).toEqual([1, '']);
      expect(err).toContain(`The proxy would reject this request (${reason}): `);
      expect(err).not.toMatch(/4111|987/);
    },
  );

  it.each([
    ['without a target', []],
    ['with a file and a demo', ['--target', transfer, '--config=c', '--gateway-admin-url=http://[::1]']],
    ['with a timestamp in milliseconds', ['--target', transfer, '--timestamp', '1700000000000']],
  ])('%s points to its help, and exits with 2', async (_what, argv) => {
    const { code, err } = await runCommandHere(explain, ...argv);
    expect(code).toBe(2);
    expect(err).toContain('See: countersign explain --help');
  });
});

describe('countersign explain of a control', () => {
  const body = 'client_orderid=i-7&orderid=17&amount=10.42&currency=EUR&comment=late';
  const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');
  const control = sha1(`acmei-7171042${testControlKey}`);

  it('shows what it is made of, and hides it on loopback too: it is as valid at the real gateway', async () => {
    for (const environment of ['sandbox', 'local']) {
      const target = `/${environment}/gw/api/v2/return/1234`;
      const { code, out } = await run(target, body, '--curl', '--show-values');
      expect(code).toBe(0);
      expect(out).toContain('\n  login=acme\n  client_orderid=i-7\n  orderid=17\n  amount=1042\n');
      expect(out).toContain('control=hidden');
      expect(out).not.toMatch(new RegExp(`${control}|${testControlKey}|curl -X`));
    }
  });
});
