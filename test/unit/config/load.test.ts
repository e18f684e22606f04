import { hash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { loadConfig } from '../../../src/config/load.ts';
import { resolveFiles } from '../../../src/config/named-files.ts';
import { fromEnvironment } from '../../../src/config/variables.ts';
import { builtInOperations } from '../../../src/gateway/operations.ts';
import { Folder } from '../../support/folder.ts';
import { operationsFile, publishedOperations } from '../../support/scenario.ts';
import { configOf, minimal } from './checking.ts';

const text = `proxy: { tls: { certFile: tls/cert.pem, keyFile: /abs/key.pem } }
environments:
  sandbox:
    baseUrl: https://gateway.example
    product: gw
    caFile: ca.pem
    endpoints: { someFile: acme }
    egressProxy: { url: 'https://egress.example', caFile: egress-ca.pem, username: u, passwordFile: password }
keys:
  source: vault
  vault:
    address: https://vault.example
    auth:
      method: token
      tokenFile: token
`;

describe('file paths of a configuration', () => {
  const resolved = (text: string) => {
    const config = configOf(text);
    resolveFiles(config, '/etc/cs');
    return config;
  };

  it('are relative to the folder of the configuration', () => {
    expect(resolved(text)).toMatchObject({
      proxy: { tls: { certFile: '/etc/cs/tls/cert.pem', keyFile: '/abs/key.pem' } },
      environments: {
        sandbox: {
          caFile: '/etc/cs/ca.pem',
          endpoints: { someFile: 'acme' },
          egressProxy: { caFile: '/etc/cs/egress-ca.pem', passwordFile: '/etc/cs/password' },
        },
      },
      keys: { vault: { auth: { tokenFile: '/etc/cs/token' } } },
    });
    expect(resolved(minimal).keys).toMatchObject({ directory: '/etc/cs/keys' });
    const audit = (fields: string) => resolved(`${minimal}audit: { ${fields} keyFile: audit.key }\n`).audit;
    expect(audit('directory: trail,')).toMatchObject({
      directory: '/etc/cs/trail',
      keyFile: '/etc/cs/audit.key',
    });
    expect(audit('')).not.toHaveProperty('directory');
  });

  it('are also those of key sets, and of parts with the name of a field, but not the claims of a caller', () => {
    const issuers =
      'jwtIssuers: { callers: { issuer: i, audience: a, jwks: { file: keys.json }, leeway: 1s } }';
    const claims = 'jwt: { issuer: callers, claims: { someFile: acme } }';
    const callers = `callers: [{ name: a, credentials: [{ ${claims} }] }]`;
    expect(resolved(`${text.replace('sandbox:', 'endpoints:')}${issuers}\n${callers}\n`)).toMatchObject({
      environments: { endpoints: { caFile: '/etc/cs/ca.pem', endpoints: { someFile: 'acme' } } },
      jwtIssuers: { callers: { issuer: 'i', jwks: { file: '/etc/cs/keys.json' } } },
      callers: [{ credentials: [{ jwt: { claims: { someFile: 'acme' } } }] }],
    });
  });
});

describe('reading a configuration', () => {
  const folder = new Folder();
  const read = (name: string, skipFiles = false) =>
    loadConfig(resolve(folder.path, name), builtInOperations, { skipFiles });

  beforeAll(() => {
    mkdirSync(folder.at('tls'));
    for (const name of ['tls/cert.pem', 'key.pem', 'ca.pem', 'token', 'egress-ca.pem', 'password'])
      folder.file(name, '');
    const [proxy = '', ...others] = text.split(/(?<=\n)/);
    folder.file(
      'wrong.yaml',
      others.join('').replace('tokenFile: token', 'tokenFile: Marked-Secret').replace('ca.pem', 'tls') +
        proxy,
    );
  });
  afterAll(() => folder.remove());

  it('adds the operations of operationsFile, whose fields those of the configuration override', async () => {
    const callers =
      'callers: [{ name: a, credentials: [{ anonymous: true }], allow: [{ environments: ["*"], operations: [payout], logins: ["*"] }] }]\n';
    folder.file('more.yaml', readFileSync(operationsFile, 'utf8'));
    const bytes = `${minimal}${callers}operationsFile: more.yaml\noperations: { payout: { path: /api/v5/payout, parameters: { amount: { required: true } } } }\n`;
    folder.file('added.yaml', bytes);
    const loaded = await read('added.yaml', true);
    const { payout, ...others } = publishedOperations;
    expect(loaded).toMatchObject({
      config: {
        operations: {
          ...others,
          payout: {
            ...payout,
            path: '/api/v5/payout',
            parameters: { client_orderid: { required: true }, amount: { required: true } },
          },
        },
      },
      digest: hash('sha256', bytes + readFileSync(operationsFile, 'utf8')),
    });
  });

  it('reports an operationsFile that is not there or not valid, with its problems', async () => {
    folder.file('wrong-operations.yaml', 'operations:\n  pay: { path: /api/v4/pay }\n');
    const problemsWith = async (line: string) => {
      folder.file('added.yaml', `\n${line}\n`);
      const loaded = await read('added.yaml', true);
      return 'problems' in loaded ? loaded.problems : [];
    };
    expect(await problemsWith('operationsFile: nowhere.yaml')).toEqual([
      { path: 'operationsFile', line: 2, message: expect.stringContaining('a file that does not exist') },
    ]);
    const wrong = await problemsWith('operationsFile: wrong-operations.yaml');
    expect(wrong.map(({ message }) => message)).toEqual([
      'names a file with a problem: line 2: operations.pay: is not a built-in operation, so it also requires signature, loginFrom',
    ]);
  });

  it('reports each file that cannot be read, in the order of the lines and without its name', async () => {
    const missing =
      'names a file that does not exist: check the path; relative paths start at the directory of the configuration file';
    const folderMessage = expect.stringMatching(/ is a directory or a device/);
    const problems = [
      { path: 'environments.sandbox.caFile', line: 5, message: folderMessage },
      { path: 'keys.vault.auth.tokenFile', line: 14, message: missing },
      { path: 'proxy.tls.keyFile', line: 15, message: missing },
    ];
    expect(await read('wrong.yaml')).toEqual({ problems });
  });

  it('names the field of each certificate or key that cannot be used', async () => {
    const listener =
      'tls: { certFile: key.pem, keyFile: key.pem, clientCaFile: ca.pem, clientCrlFile: ca.pem }';
    folder.file('tls.yaml', text.replace('proxy: ', `admin: { ${listener} }\nproxy: `).replace('/abs/', ''));
    const loaded = await loadConfig(folder.at('tls.yaml'), builtInOperations, { certificatesAt: 0 });
    const problems = 'problems' in loaded ? loaded.problems : [];
    expect(problems.map(({ path }) => path)).toEqual([
      'admin.tls.certFile',
      'admin.tls.clientCaFile',
      'admin.tls.clientCrlFile',
      'admin.tls.keyFile',
      'proxy.tls.certFile',
      'proxy.tls.keyFile',
      'environments.sandbox.caFile',
      'environments.sandbox.egressProxy.caFile',
    ]);
    expect(await read('tls.yaml')).toHaveProperty('config');
  });

  it('notices a key directory that is missing, where files are checked', async () => {
    const file = folder.file('keyless.yaml', minimal.replace('directory: keys', 'directory: nowhere'));
    const noticesOf = async (more: object) => {
      const loaded = await loadConfig(file, builtInOperations, { certificatesAt: 0, ...more });
      return 'config' in loaded ? loaded.notices : loaded;
    };
    expect(await noticesOf({})).toEqual([
      {
        path: 'keys.directory',
        line: 4,
        message: expect.stringMatching(/^names a folder that does not exist/),
      },
    ]);
    expect(await noticesOf({ skipFiles: true })).toEqual([]);
  });

  it('reports an audit key that is too short', async () => {
    folder.file('short.key', 'k'.repeat(31));
    const audit = 'audit: { directory: trail, keyFile: short.key }';
    folder.file('audit.yaml', `${text.replace('/abs/', '')}${audit}\n`);
    expect(await read('audit.yaml')).toEqual({
      problems: [{ path: 'audit.keyFile', line: 16, message: expect.stringMatching(/^names a file that /) }],
    });
  });

  it('reads UTF-8 behind a byte order mark, and says that another encoding is none', async () => {
    const marked = folder.file('marked.yaml', `\ufeff${minimal}`);
    expect(await loadConfig(marked, builtInOperations, { skipFiles: true })).toHaveProperty('config');
    const utf16 = folder.at('utf16.yaml');
    writeFileSync(utf16, Buffer.from(`\ufeff${minimal}`, 'utf16le'));
    expect(await loadConfig(utf16, builtInOperations)).toEqual({
      problems: [{ path: '', line: 0, message: 'is not text in UTF-8; save it as UTF-8' }],
    });
  });

  it.each([
    [
      'missing.yaml',
      'does not exist: check the path; relative paths start at the directory of the configuration file',
    ],
    ['tls', 'is a directory or a device: name a regular file'],
  ])('reports that %s cannot be read', async (name, message) => {
    expect(await read(name)).toEqual({ problems: [{ path: '', line: 0, message }] });
  });

  it('reads variables from the environment, not from its prototype', () => {
    expect(fromEnvironment('PATH')).toBe(process.env['PATH']);
    expect(['constructor', '__proto__'].map(fromEnvironment)).toEqual([undefined, undefined]);
  });
});
