import { describe, expect, it } from '@jest/globals';
import { command } from '../../../../src/cli/shared/command.ts';
import { configFileOf, settingOptions, withSettings } from '../../../../src/cli/shared/config-file.ts';
import { configSchema } from '../../../../src/config/schema.ts';
import { runCommandHere } from '../../../support/cli.ts';

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

/** What a command prints with these options and environment variables: ports and log level, or the problems. */
async function settingsOf(argv: readonly string[], variables: Readonly<Record<string, string>>) {
  const run = command({ name: 'test', options: settingOptions, usage: '', about: '' }, ({ values }, io) => {
    const { proxy, admin, log } = withSettings(config, values);
    io.out([proxy.port, admin.port, log.level].join());
    return 0;
  });
  const before = { ...process.env };
  Object.assign(process.env, variables);
  try {
    const { out, err } = await runCommandHere(run, ...argv);
    return `${out}${err}`.split('\n');
  } finally {
    process.env = before;
  }
}

const all = { COUNTERSIGN_PROXY_PORT: '3', COUNTERSIGN_ADMIN_PORT: '4', COUNTERSIGN_LOG_LEVEL: 'warn' };

describe('ports and log level', () => {
  it('are those of the file without option and variable, or with an empty variable', async () => {
    expect(await settingsOf([], {})).toEqual(['1,2,info']);
    expect(await settingsOf([], { COUNTERSIGN_PROXY_PORT: '', COUNTERSIGN_LOG_LEVEL: '' })).toEqual([
      '1,2,info',
    ]);
  });

  it('are those of the variables rather than of the file, one by one', async () => {
    expect(await settingsOf([], all)).toEqual(['3,4,warn']);
    expect(await settingsOf([], { COUNTERSIGN_ADMIN_PORT: '0' })).toEqual(['1,0,info']);
  });

  it('are those of the options rather than of the variables, one by one', async () => {
    const options = ['--port', '5', '--admin-port', '6', '--log-level', 'debug'];
    expect(await settingsOf(options, all)).toEqual(['5,6,debug']);
    expect(await settingsOf(['--port', '5'], all)).toEqual(['5,4,warn']);
  });

  it('that are invalid are reported by the name under which they were set, without the value', async () => {
    const variables = { ...all, COUNTERSIGN_ADMIN_PORT: '65536', COUNTERSIGN_LOG_LEVEL: 'loud' };
    expect(await settingsOf(['--port', 'a-secret'], variables)).toEqual([
      'countersign test: --port must be a port from 0 to 65535; 0 picks a free one',
      'countersign test: COUNTERSIGN_ADMIN_PORT must be a port from 0 to 65535; 0 picks a free one',
      'countersign test: COUNTERSIGN_LOG_LEVEL must be one of debug, info, warn, error, silent',
      'See: countersign test --help',
    ]);
  });
});

it('the configuration file is that of the option, else of the variable', () => {
  const lookUp = lookUpIn({ COUNTERSIGN_CONFIG: 'b.yaml' });
  expect(configFileOf('a.yaml', lookUp)).toBe('a.yaml');
  expect(configFileOf(undefined, lookUp)).toBe('b.yaml');
  expect(configFileOf(undefined, lookUpIn({}))).toBeUndefined();
  // It is given, and no file: the demo must not run in its place.
  expect(configFileOf('', lookUp)).toBe('');
  expect(() => configFileOf(undefined, lookUpIn({ COUNTERSIGN_CONFIG: '' }))).toThrow(
    'COUNTERSIGN_CONFIG is empty',
  );
});
