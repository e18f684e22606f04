import { describe, expect, it } from '@jest/globals';
import { configFileOf, readOverrides, withOverrides } from '../../../../src/cli/shared/config.ts';
import { configSchema } from '../../../../src/config/schema.ts';

const config = configSchema.parse({
  proxy: { port: 1 },
  admin: { port: 2 },
  environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
  keys: { source: 'directory', directory: 'keys' },
});
const lookUpIn =
  (variables: Readonly<Record<string, string>>) =>
  (name: string): string | undefined =>
    variables[name];

function settingsOf(
  options: Parameters<typeof readOverrides>[0],
  variables: Readonly<Record<string, string>>,
) {
  const read = readOverrides(options, lookUpIn(variables));
  if ('problems' in read) return read.problems;
  const { proxy, admin, log } = withOverrides(config, read.overrides);
  return [proxy.port, admin.port, log.level];
}

const all = { COUNTERSIGN_PROXY_PORT: '3', COUNTERSIGN_ADMIN_PORT: '4', COUNTERSIGN_LOG_LEVEL: 'warn' };

describe('ports and log level', () => {
  it('are those of the file without option and variable, or with an empty variable', () => {
    expect(settingsOf({}, {})).toEqual([1, 2, 'info']);
    expect(settingsOf({}, { COUNTERSIGN_PROXY_PORT: '', COUNTERSIGN_LOG_LEVEL: '' })).toEqual([1, 2, 'info']);
  });

  it('are those of the variables rather than of the file, one by one', () => {
    expect(settingsOf({}, all)).toEqual([3, 4, 'warn']);
    expect(settingsOf({}, { COUNTERSIGN_ADMIN_PORT: '0' })).toEqual([1, 0, 'info']);
  });

  it('are those of the options rather than of the variables, one by one', () => {
    expect(settingsOf({ port: '5', 'admin-port': '6', 'log-level': 'debug' }, all)).toEqual([5, 6, 'debug']);
    expect(settingsOf({ port: '5' }, all)).toEqual([5, 4, 'warn']);
  });

  it('that are invalid are reported by the name under which they were set, without the value', () => {
    expect(
      settingsOf(
        { port: 'a-secret' },
        { ...all, COUNTERSIGN_ADMIN_PORT: '65536', COUNTERSIGN_LOG_LEVEL: 'loud' },
      ),
    ).toEqual([
      '--port must be a port from 0 to 65535; 0 picks a free one',
      'COUNTERSIGN_ADMIN_PORT must be a port from 0 to 65535; 0 picks a free one',
      'COUNTERSIGN_LOG_LEVEL must be one of debug, info, warn, error, silent',
    ]);
  });
});

it('the configuration file is that of the option, else of the variable', () => {
  const lookUp = lookUpIn({ COUNTERSIGN_CONFIG: 'b.yaml' });
  expect(configFileOf('a.yaml', lookUp)).toBe('a.yaml');
  expect(configFileOf(undefined, lookUp)).toBe('b.yaml');
  expect(configFileOf(undefined, lookUpIn({}))).toBeUndefined();
  expect(() => configFileOf(undefined, lookUpIn({ COUNTERSIGN_CONFIG: '' }))).toThrow(
    'COUNTERSIGN_CONFIG is empty',
  );
});
