import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from '@jest/globals';
import { check } from '../../../../src/cli/check/check.ts';
import { runCommandHere } from '../../../support/cli.ts';
import { Folder } from '../../../support/folder.ts';

const fiveMistakes = `proxy:
  hots: 127.0.0.1
environments:
  production:
    baseUrl: http://gateway.example
    product: gw
  sandbox:
    baseUrl: https://sandbox.gateway.example
    product: \${COUNTERSIGN_TEST_NOT_SET}
keys:
  source: directory
  directory: keys
  rotationGracePeriod: 1 day
callers:
  - name: billing
    credentials: [{ tokenSha256: 2f77668a9dfbf8d5848b9eeb4a7145ca94c6ed9236e4a773f6dcafa5132b2f91 }]
    allow: [{ environments: [prodution], operations: ["*"], logins: ["*"] }]
`;

describe('countersign check', () => {
  const folder = new Folder();
  afterAll(() => folder.remove());

  async function run(...argv: string[]) {
    const { code, out, err } = await runCommandHere(check, ...argv);
    const lines = (text: string): string[] => (text === '' ? [] : text.split('\n'));
    return { code, out: lines(out), err: lines(err) };
  }

  const fileOf = (text: string): string => folder.file('c.yaml', text);

  it('reports five mistakes as five problems, each with its path and line, and exits with 2', async () => {
    const file = fileOf(fiveMistakes);
    expect(await run('--config', file)).toEqual({
      code: 2,
      out: [
        `${file}:2:  proxy.hots: is not a known key; did you mean "host"?`,
        `${file}:5:  environments.production.baseUrl: must use https unless the host is loopback, or set allowInsecureHttp: true`,
        `${file}:9:  environments.sandbox.product: requires the environment variable COUNTERSIGN_TEST_NOT_SET, which is not set`,
        `${file}:13: keys.rotationGracePeriod: must be a duration with a unit, such as 500ms, 3s, 15m, 12h or 7d`,
        `${file}:17: callers[0].allow[0].environments[0]: unknown environment; did you mean "production"?`,
        '5 problems',
      ],
      err: [],
    });
  });

  it('lists operations that one environment adds, and warns if there are no callers', async () => {
    const file = fileOf(`environments:
  a: { baseUrl: "https://a.example", product: gw }
  b:
    baseUrl: https://b.example
    product: gw
    operations: { refund: { path: "/api/v4/return/{endpoint}", signature: RSA-SHA256, loginFrom: header } }
keys: { source: vault, vault: { address: "https://vault.example", auth: { method: kubernetes, role: r } } }
`);
    expect((await run('--config', file, '--no-file-checks')).out.slice(1)).toEqual([
      'environments  a, b',
      'operations    manager-balance, order-status, order-status-group, pan-eligibility-send, transfer, verify-callback, refund',
      'callers       none (all requests will be rejected)',
      'keys          vault at https://vault.example',
    ]);
  });

  it('prints notices after the summary, and does not fail', async () => {
    const file = fileOf(`environments: { a: { baseUrl: "https://a.example", product: gw } }
keys: { source: directory, directory: keys }
callers: [{ name: trial, mode: dry-run, credentials: [{ anonymous: true }] }]
`);
    const { code, out } = await run('--config', file);
    expect(code).toBe(0);
    expect(out.slice(5).join('\n')).toMatch(
      /c\.yaml:3: +callers\[0\]\.mode: lets through every request.*\n2 notices$/,
    );
  });

  it('skips variables that are not set with --no-file-checks', async () => {
    const file = fileOf(`environments: { a: { baseUrl: "\${COUNTERSIGN_TEST_URL}", product: gw } }
keys: { source: directory, directory: keys }
callers:
  - { name: a, credentials: [{ tokenSha256: "\${COUNTERSIGN_TEST_A}" }, { tokenSha256: "\${COUNTERSIGN_TEST_B}" }] }
`);
    const { code, out } = await run('--config', file, '--no-file-checks');
    const skipped =
      'environments.a.baseUrl callers[0].credentials[0].tokenSha256 callers[0].credentials[1].tokenSha256';
    expect([
      code,
      out[0],
      out.filter((line) => line.startsWith('not checked')).map((line) => line.replace(/ +/g, ' ')),
    ]).toEqual([
      0,
      `${file}: no problems`,
      skipped.split(' ').map((path) => `not checked ${path}, from an environment variable that is not set`),
    ]);
    expect((await run('--config', file)).code).toBe(2);
  });

  it('skips nothing else, and none with --online', async () => {
    const file = fileOf('environments: { a: { baseUrl: "${COUNTERSIGN_TEST_URL}", prodct: gw } }\n');
    const { code, out } = await run('--config', file, '--no-file-checks');
    expect([code, out.join()]).toEqual([
      2,
      expect.stringContaining('environments.a.prodct: is not a known key'),
    ]);
    expect(out.join()).not.toContain('baseUrl');
    const online = await run('--online', '--no-file-checks', file);
    expect(online.out.join()).toContain('requires the environment variable');
  });

  it('checks that files are readable, unless --no-file-checks is given', async () => {
    const file = fileOf(`environments: { a: { baseUrl: "https://a.example", product: gw, caFile: ca.pem } }
keys: { source: directory, directory: keys }
`);
    const { code, out } = await run('--config', file);
    expect(code).toBe(2);
    expect(out).toEqual([
      expect.stringContaining(':1: environments.a.caFile: names a file that '),
      '1 problem',
    ]);
    expect((await run('--config', file, '--no-file-checks')).code).toBe(0);
  });

  it('prints the configuration with its defaults, absolute paths and names of variables, and hides secrets', async () => {
    const file =
      fileOf(`environments: { a: { baseUrl: "https://a${folder.path}/\${COUNTERSIGN_TEST_A}", product: gw, caFile: ca.pem } }
keys: { source: vault, vault: { address: "https://v.example", auth: { method: token, token: marked } } }
callers: [{ name: trial, credentials: [{ tokenSha256: "\${COUNTERSIGN_TEST_A}" }] }]
admin: { tls: { certFile: "\${COUNTERSIGN_TEST_B}/\${COUNTERSIGN_TEST_C}.crt", keyFile: tls.key } }
`);
    const { code, out, err } = await run('--print', '--no-file-checks', file);
    expect({ code, err: err.at(-1) }).toEqual({ code: 0, err: '2 notices' });
    const lines = [
      '  port: 8080',
      `    baseUrl: https://a${folder.path}/\${COUNTERSIGN_TEST_A}`,
      `    caFile: ${folder.at('ca.pem')}`,
      '      token: hidden',
      '      - tokenSha256: ${COUNTERSIGN_TEST_A}',
      '    certFile: ${COUNTERSIGN_TEST_B}/${COUNTERSIGN_TEST_C}.crt',
    ];
    expect(out).toEqual(expect.arrayContaining(lines));
    expect(out.join('\n')).not.toContain('marked');
    const printed = folder.file('printed.yaml', out.join('\n'));
    expect((await run('--print', '--no-file-checks', printed)).out).toEqual(out);
  });

  it('prints the schema that is committed', async () => {
    const { code, out } = await run('--schema');
    expect(code).toBe(0);
    expect(`${out.join('\n')}\n`).toBe(
      readFileSync(new URL('../../../../config/schema.json', import.meta.url), 'utf8'),
    );
  });

  it.each([
    ['a.yaml', 'b.yaml'],
    ['a.yaml', '--config', 'b.yaml'],
    [],
    ['--online'],
    ['--json', 'a.yaml'],
    ['--print', '--schema'],
  ])('rejects %s with a hint', async (...argv) => {
    const { code, out, err } = await run(...argv);
    expect({ code, out }).toEqual({ code: 2, out: [] });
    expect(err.join('\n')).toContain('See: countersign check --help');
  });

  it('does not repeat a positional argument: it may be a token', async () => {
    const { err } = await run('hvs.marked');
    expect(err.join('\n')).not.toContain('marked');
  });
});
