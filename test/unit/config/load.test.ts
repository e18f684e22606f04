import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { referencedFiles, resolveFiles } from '../../../src/config/file-references.ts';
import { fromEnvironment, loadConfig } from '../../../src/config/load.ts';
import { builtInOperations } from '../../../src/gateway/operations.ts';
import { configOf, exampleText, exampleVariables, minimal } from './checking.ts';

const text = `proxy: { tls: { certFile: tls/cert.pem, keyFile: /abs/key.pem } }
environments:
  sandbox:
    baseUrl: https://gateway.example
    product: gw
    caFile: ca.pem
    endpoints: { someFile: acme }
keys:
  source: vault
  vault:
    address: https://vault.example
    auth:
      method: token
      tokenFile: token
`;

describe('file paths of a configuration', () => {
  it('are relative to the folder of the configuration', () => {
    expect(resolveFiles(configOf(text), '/etc/cs')).toMatchObject({
      proxy: { tls: { certFile: '/etc/cs/tls/cert.pem', keyFile: '/abs/key.pem' } },
      environments: { sandbox: { caFile: '/etc/cs/ca.pem', endpoints: { someFile: 'acme' } } },
      keys: { vault: { auth: { tokenFile: '/etc/cs/token' } } },
    });
    expect(resolveFiles(configOf(minimal), '/etc/cs').keys).toMatchObject({ directory: '/etc/cs/keys' });
  });

  it('are the only values that change', () => {
    const config = configOf(exampleText('embedded'), exampleVariables);
    expect(resolveFiles(config, '/etc/cs')).toEqual(config);
    expect(Object.getPrototypeOf(resolveFiles(config, '/etc/cs').environments)).toBeNull();
  });

  it('are listed with the fields that contain them', () => {
    expect(referencedFiles(configOf(text)).map(({ path, file }) => [path.join('.'), file])).toEqual([
      ['proxy.tls.certFile', 'tls/cert.pem'],
      ['proxy.tls.keyFile', '/abs/key.pem'],
      ['environments.sandbox.caFile', 'ca.pem'],
      ['keys.vault.auth.tokenFile', 'token'],
    ]);
  });
});

describe('reading a configuration', () => {
  let folder: string;
  const read = (name: string, skipFiles = false) =>
    loadConfig(join(folder, name), builtInOperations, { skipFiles });

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-config-'));
    mkdirSync(join(folder, 'tls'));
    for (const name of ['tls/cert.pem', 'key.pem', 'ca.pem', 'token']) writeFileSync(join(folder, name), '');
    writeFileSync(join(folder, 'right.yaml'), text.replace('/abs/', ''));
    writeFileSync(
      join(folder, 'wrong.yaml'),
      text.replace('tokenFile: token', 'tokenFile: Marked-Secret').replace('ca.pem', 'tls'),
    );
    writeFileSync(join(folder, 'broken.yaml'), 'a: [');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('returns absolute paths', async () => {
    expect(await read('right.yaml')).toMatchObject({
      config: { proxy: { tls: { keyFile: join(folder, 'key.pem') } } },
    });
  });

  it('reports each file that cannot be read, with its line and without its name', async () => {
    expect(await read('wrong.yaml')).toEqual({
      problems: [
        {
          path: 'proxy.tls.keyFile',
          line: 1,
          message:
            'names a file that does not exist: check the path; relative paths start at the directory of the configuration file',
        },
        {
          path: 'environments.sandbox.caFile',
          line: 6,
          message: 'names a file that is a directory or a device: name a regular file',
        },
        {
          path: 'keys.vault.auth.tokenFile',
          line: 14,
          message:
            'names a file that does not exist: check the path; relative paths start at the directory of the configuration file',
        },
      ],
    });
  });

  it('does not check the files if skipFiles is set', async () => {
    expect(await read('wrong.yaml', true)).toHaveProperty('config');
  });

  it('reports problems in the text', async () => {
    expect(await read('broken.yaml')).toMatchObject({ problems: [{ line: 1 }] });
  });

  it.each([
    [
      'missing.yaml',
      'does not exist: check the path; relative paths start at the directory of the configuration file',
    ],
    ['tls', 'is a directory or a device: name a regular file'],
    ['token/x', 'cannot be read (ENOTDIR)'],
  ])('reports that %s cannot be read', async (name, message) => {
    expect(await read(name)).toEqual({ problems: [{ path: '', line: 0, message }] });
  });

  it('reads variables from the environment, not from its prototype', () => {
    expect(fromEnvironment('PATH')).toBe(process.env['PATH']);
    expect(['constructor', '__proto__', 'toString'].map(fromEnvironment)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});
