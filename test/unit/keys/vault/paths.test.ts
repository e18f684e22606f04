import { describe, expect, it } from '@jest/globals';
import { assert, property, stringMatching } from 'fast-check';
import { kvPaths, mountPath } from '../../../../src/keys/vault/paths.ts';

const path = 'gateway/{environment}/{login}';
const acme = { environment: 'sandbox', login: 'acme' };

describe('a path in Vault', () => {
  it('is built from mount, view and template', () => {
    const paths = kvPaths({ mount: 'secret', path });
    expect(paths.secret('data', acme)).toBe('secret/data/gateway/sandbox/acme');
    expect(paths.secret('metadata', acme)).toBe('secret/metadata/gateway/sandbox/acme');
    expect(paths.folder('sandbox')).toBe('secret/metadata/gateway/sandbox');
  });

  it('can have a mount and a template of several segments, encoded one by one', () => {
    const paths = kvPaths({ mount: 'team a/kv', path: 'x/{environment}-gw/{login}/keys?' });
    expect(paths.secret('data', acme)).toBe('team%20a/kv/data/x/sandbox-gw/acme/keys%3F');
    expect(mountPath('k8s/#1')).toBe('k8s/%231');
  });

  it.each(['', '..', '.', 'a/b', 'a\\b', '%2e%2e', 'a?version=1', 'a#b', 'a b', 'ä', 'a\0', 'a'.repeat(129)])(
    'is not built for the login %j',
    (login) => {
      expect(() => kvPaths({ mount: 'secret', path }).secret('data', { ...acme, login })).toThrow(TypeError);
    },
  );

  it.each(['', 'Sandbox', '../production', 'a/b', 'a.b'])(
    'is not built for the environment %j',
    (environment) => {
      const paths = kvPaths({ mount: 'secret', path });
      expect(() => paths.secret('data', { ...acme, environment })).toThrow(TypeError);
      expect(() => paths.folder(environment)).toThrow(TypeError);
    },
  );

  it.each(['gateway/{login}', 'gateway/{environment}', 'gateway'])(
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

  it.each(['', '/secret', 'secret/', '..', 'a//b', './a'])('cannot contain the segment %j', (part) => {
    expect(() => kvPaths({ mount: part, path })).toThrow(TypeError);
    expect(() => kvPaths({ mount: 'secret', path: `${part}/${path}/` })).toThrow(TypeError);
  });

  it('is not changed by URL normalization', () => {
    const login = stringMatching(/^[A-Za-z0-9._~@-]{1,128}$/).filter((name) => !/^\.{1,2}$/.test(name));
    const paths = kvPaths({ mount: 'secret', path });
    assert(
      property(login, (name) => {
        const url = new URL(`http://vault/v1/${paths.secret('data', { ...acme, login: name })}`);
        expect(url.search + url.hash).toBe('');
        expect(url.pathname.split('/').map(decodeURIComponent)).toEqual(
          `/v1/secret/data/gateway/sandbox/${name}`.split('/'),
        );
      }),
    );
  });
});
