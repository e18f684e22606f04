import { describe, expect, it } from '@jest/globals';
import { assert, property, stringMatching } from 'fast-check';
import { kvPaths, mountPath } from '../../../src/keys/vault/paths.ts';

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
    expect(paths.loginIsFolder).toBe(true);
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

  it.each([
    'gateway/{login}',
    'gateway/{environment}',
    'gateway/{login}/{environment}',
    'gateway/{environment}-{login}',
    'gateway/{environment}/x-{login}',
  ])('cannot come from the template %j, which could mix logins up', (template) => {
    expect(() => kvPaths({ mount: 'secret', path: template })).toThrow('must hold {environment}');
  });

  it.each(['', '/secret', 'secret/', '..', 'a//b', './a'])('cannot stand on the mount %j', (mount) => {
    expect(() => kvPaths({ mount, path })).toThrow(TypeError);
  });

  it('stays where it was put by the time it is a URL', () => {
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
