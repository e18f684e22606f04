import { describe, expect, it } from '@jest/globals';
import { kvPaths, mountPath } from '../../../../src/keys/vault/paths.ts';

const path = 'gateway/{environment}/{login}';
const acme = { environment: 'sandbox', login: 'acme' };

describe('a path in Vault', () => {
  it('is built from mount, view and template, also for a login with special characters', () => {
    const paths = kvPaths({ mount: 'secret', path });
    expect(paths.secret('data', acme)).toBe('secret/data/gateway/sandbox/acme');
    expect(paths.secret('metadata', acme)).toBe('secret/metadata/gateway/sandbox/acme');
    expect(paths.folder('sandbox')).toBe('secret/metadata/gateway/sandbox');
    const odd = 'A.z~_@-';
    const { pathname } = new URL(paths.secret('data', { ...acme, login: odd }), 'http://vault/v1/');
    expect(decodeURIComponent(pathname)).toBe(`/v1/secret/data/gateway/sandbox/${odd}`);
  });

  it('can have a mount and a template of several segments, encoded one by one', () => {
    const paths = kvPaths({ mount: 'team a/kv', path: 'x/{environment}-gw/{login}/keys?' });
    expect(paths.secret('data', acme)).toBe('team%20a/kv/data/x/sandbox-gw/acme/keys%3F');
    expect(mountPath('k8s/#1')).toBe('k8s/%231');
  });

  it.each([
    ['sandbox', ''],
    ['sandbox', '..'],
    ['sandbox', 'a?version=1'],
    ['sandbox', 'a'.repeat(129)],
    ['../production', 'acme'],
    ['Sandbox', 'acme'],
  ])('is not built for the environment %j with the login %j', (environment, login) => {
    const paths = kvPaths({ mount: 'secret', path });
    expect(() => paths.secret('data', { environment, login })).toThrow(TypeError);
    if (login === 'acme') expect(() => paths.folder(environment)).toThrow(TypeError);
  });

  it.each(['gateway/{login}', 'gateway/{environment}'])(
    'cannot come from the template %j, which lacks a name',
    (template) => {
      expect(() => kvPaths({ mount: 'secret', path: template })).toThrow(
        'must contain {environment} and {login}',
      );
    },
  );

  it.each([
    ['gateway/{environment}/{login}', 'secret/metadata/gateway/sandbox', 'acme'],
    ['{environment}/{login}/keys', 'secret/metadata/sandbox', 'acme/'],
    ['gateway/{environment}.{login}', 'secret/metadata/gateway', 'sandbox.acme'],
    ['gw-{environment}/key-{login}_x/now', 'secret/metadata/gw-sandbox', 'key-acme_x/'],
    ['{login}/{environment}', 'secret/metadata', 'acme/'],
  ])('maps a listing back to the login, with the template %j', (template, folder, name) => {
    const paths = kvPaths({ mount: 'secret', path: template });
    expect(paths.folder('sandbox')).toBe(folder);
    expect(paths.loginOf('sandbox', name)).toBe('acme');
    const isFolder = name.endsWith('/');
    expect(paths.loginOf('sandbox', isFolder ? name.slice(0, -1) : `${name}/`)).toBeUndefined();
    expect(paths.loginOf('sandbox', '')).toBeUndefined();
  });

  it.each(['', 'secret/', '..', 'a//b'])('cannot contain the segment %j', (part) => {
    expect(() => kvPaths({ mount: part, path })).toThrow(TypeError);
    expect(() => kvPaths({ mount: 'secret', path: `${part}/${path}/` })).toThrow(TypeError);
  });
});
