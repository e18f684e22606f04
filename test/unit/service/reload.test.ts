import { describe, expect, it } from '@jest/globals';
import { configTable } from '../../../scripts/docs/config-table.ts';
import { configSchema } from '../../../src/config/schema.ts';
import { fieldsForRestart, fitForListener, startOnly } from '../../../src/service/reload.ts';

const least = {
  environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
  keys: { source: 'directory', directory: '/keys' },
};
const audit = { file: '/audit/a', keyFile: '/audit/key' };
const tls = { certFile: '/tls/a.crt', keyFile: '/tls/a.key' };
const configOf = (overrides: object = {}) => configSchema.parse({ ...least, audit, ...overrides });

describe('a reload', () => {
  it.each([
    ['proxy.host', { proxy: { host: '0.0.0.0' } }],
    ['proxy.port', { proxy: { port: 1 } }],
    ['proxy.tls', { proxy: { tls } }],
    ['proxy.timeouts.headers', { proxy: { timeouts: { headers: '1s' } } }],
    ['admin.host', { admin: { host: '0.0.0.0' } }],
    ['admin.port', { admin: { port: 1 } }],
    ['admin.tls', { admin: { tls } }],
    ['admin.maxConnections', { admin: { maxConnections: 1 } }],
    ['admin.allowedHosts', { admin: { allowedHosts: ['metrics.example'] } }],
    ['audit.file', { audit: { ...audit, file: '/audit/b' } }],
    ['audit.keyFile', { audit: { ...audit, keyFile: '/audit/other-key' } }],
    ['audit.required', { audit: { ...audit, required: true } }],
    ['audit.sync', { audit: { ...audit, sync: true } }],
    ['log.level', { log: { level: 'debug' } }],
  ])('that changes %s needs a restart', (field, overrides) => {
    expect(fieldsForRestart(configOf(), configOf(overrides))).toEqual([field]);
    expect(fieldsForRestart(configOf(overrides), configOf(overrides))).toEqual([]);
  });

  it('that names other certificate files requires none', () => {
    const other = { ...tls, certFile: '/tls/b.crt', clientCaFile: '/tls/ca.crt' };
    const withTls = (files: object) => configOf({ proxy: { tls: files }, admin: { tls: files } });
    expect(fieldsForRestart(withTls(tls), withTls(other))).toEqual([]);
  });
});

describe('the listener that a process has', () => {
  const token = { name: 'a', credentials: [{ tokenSha256: 'a'.repeat(64) }], allow: [] };
  const anonymous = { name: 'a', credentials: [{ anonymous: true }], allow: [] };
  const fits = (started: object, next: object, caller: object) => () =>
    fitForListener(configOf({ proxy: started }), configOf({ proxy: next, callers: [caller] }));
  const open = { host: '0.0.0.0' };
  const local = { host: '127.0.0.1' };

  it.each([
    ['a token in the clear, though the file says TLS', open, { ...open, tls }, token],
    ['a token in the clear, though the file says loopback', open, local, token],
    ['anonymous access, though the file says loopback', open, local, anonymous],
  ])('must not accept %s', (_, started, next, caller) => {
    expect(fits(started, next, caller)).toThrow(/callers\[0\].credentials\[0\] .* need a restart\./);
  });

  it.each([
    ['a token with TLS, though the file has none', { ...open, tls }, local, token],
    ['a token on loopback', local, open, token],
    ['a token where something else encrypts', open, { ...open, allowPlaintext: true }, token],
    ['anonymous access that is allowed', open, { ...open, allowAnonymous: true }, anonymous],
  ])('may accept %s', (_, started, next, caller) => {
    expect(fits(started, next, caller)).not.toThrow();
  });
});

/** Each takes effect with a reload. */
const reloadable = [
  'admin.runbookUrl',
  'admin.tokenSha256',
  'proxy.maxConnections',
  'proxy.maxBodyBytes',
  'proxy.maxBufferedBytes',
  'proxy.maxParameters',
  'proxy.timeouts.body',
  'proxy.timeouts.shutdownDelay',
  'proxy.timeouts.shutdown',
  'proxy.allowAnonymous',
  'proxy.allowPlaintext',
  'proxy.allowedHosts',
];

it('every field of a listener, of the audit trail and of the log either takes effect with a reload or needs a restart', () => {
  const fields = configTable()
    .map(({ path }) => path)
    .filter(
      (path) =>
        /^(?:proxy|admin|audit|log)\./.test(path) && !/^(?:proxy|admin)\.(?:tls\.|timeouts$)/.test(path),
    );
  expect([...Object.keys(startOnly), ...reloadable].sort()).toEqual([...new Set(fields)].sort());
});
