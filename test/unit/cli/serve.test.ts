import { describe, expect, it } from '@jest/globals';
import { describeStartError, reloadConfig, shutDown, untilStopped } from '../../../src/cli/serve.ts';
import { configSchema } from '../../../src/config/schema.ts';
import { createLogger } from '../../../src/observability/logger.ts';

/** A log, and its lines without their times. */
function startLog() {
  const lines: object[] = [];
  const write = (line: string): void => {
    const { time: _time, ...fields }: Record<string, unknown> = JSON.parse(line);
    lines.push(fields);
  };
  return { log: createLogger('info', { write }), lines };
}

describe('a reload', () => {
  const config = configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
    keys: { source: 'directory', directory: 'keys' },
    callers: [
      { name: 'local', credentials: [{ anonymous: true }] },
      { name: 'trial', mode: 'dry-run', credentials: [{ certificateDns: 'a' }] },
    ],
  });
  const valid = { config, digest: 'd', notices: [] };
  const callers = [
    {
      level: 'warn',
      caller: 'local',
      listeningOn: '127.0.0.1',
      msg: 'requests without credentials are accepted',
    },
    {
      level: 'warn',
      caller: 'trial',
      msg: 'requests that the grants do not allow are let through: mode is dry-run',
    },
  ];

  /** What is logged, and whether the metric counts the reload as successful, each time. */
  async function reloaded(
    load: Parameters<typeof reloadConfig>[0]['load'],
    { fields = [], audit = async () => {} }: { fields?: readonly string[]; audit?: () => Promise<void> } = {},
  ) {
    const { log, lines } = startLog();
    const [successful, applied]: [boolean[], unknown[]] = [[], []];
    const service = {
      reopenAudit: audit,
      configLoaded: (value: boolean) => void successful.push(value),
      reload: async (loaded: unknown) => {
        applied.push(loaded);
        return fields;
      },
    };
    await reloadConfig({ file: 'c.yaml', load }, service, log);
    return { lines, successful, applied: applied.length };
  }

  it('that is applied as a whole says so, and what is remarkable about callers', async () => {
    expect(await reloaded(async () => valid)).toEqual({
      lines: [...callers, { level: 'info', msg: 'configuration reloaded' }],
      successful: [true],
      applied: 1,
    });
  });

  it('of which a part requires a restart names the fields, and is not successful', async () => {
    const msg = 'configuration reloaded; some fields require a restart';
    expect(await reloaded(async () => valid, { fields: ['proxy.port', 'log.level'] })).toEqual({
      lines: [...callers, { level: 'warn', fields: 'proxy.port, log.level', msg }],
      successful: [false],
      applied: 1,
    });
  });

  it('of an invalid file lists its problems, and changes nothing', async () => {
    const problems = [{ path: 'proxy.port', line: 3, message: 'is wrong' }];
    expect(await reloaded(async () => ({ problems }))).toEqual({
      lines: [
        { level: 'error', msg: 'c.yaml:3: proxy.port: is wrong' },
        { level: 'error', msg: '1 problem' },
        { level: 'error', msg: 'configuration reload failed; keeping the current one' },
      ],
      successful: [false],
      applied: 0,
    });
  });

  it('that fails says why', async () => {
    expect(await reloaded(() => Promise.reject(new Error('the file is gone')))).toEqual({
      lines: [
        {
          level: 'error',
          msg: 'configuration reload failed; keeping the current one: the file is gone',
        },
      ],
      successful: [false],
      applied: 0,
    });
  });

  it('goes on where the audit key cannot be read again', async () => {
    const audit = () => Promise.reject(new Error('the key is gone'));
    expect(await reloaded(async () => valid, { audit })).toMatchObject({
      lines: [
        {
          level: 'error',
          msg: 'audit key cannot be read again; keeping the current one: the key is gone',
        },
        ...callers,
        { msg: 'configuration reloaded' },
      ],
      successful: [true],
    });
  });
});

it.each([
  [true, 0, { level: 'info', msg: 'stopped' }],
  [false, 1, { level: 'error', msg: 'shutdown timeout: requests still in flight' }],
])('a shutdown in which all requests finished (%s) ends with code %i', async (finished, code, last) => {
  const { log, lines } = startLog();
  const skipDelay = Promise.resolve();
  const stop = async (given: Promise<unknown>) => given === skipDelay && finished;
  expect(await shutDown({ stop }, { skipDelay }, log)).toBe(code);
  expect(lines).toEqual([{ level: 'info', msg: 'shutting down: draining in-flight requests' }, last]);
});

describe('a port in use at the start', () => {
  const describeFor = (port: number, ports: { proxy: number; admin: number }): string =>
    describeStartError(
      Object.assign(new Error('x'), { code: 'EADDRINUSE', syscall: 'listen', address: '127.0.0.1', port }),
      { proxy: { port: ports.proxy }, admin: { port: ports.admin } },
    );

  it('is named with the option that chooses another one', () => {
    const ports = { proxy: 8080, admin: 9090 };
    expect(describeFor(8080, ports)).toBe('127.0.0.1:8080 is in use. Choose another port with --port.');
    expect(describeFor(9090, ports)).toBe('127.0.0.1:9090 is in use. Choose another port with --admin-port.');
  });

  it('is said to be both if it is', () => {
    expect(describeFor(8080, { proxy: 8080, admin: 8080 })).toBe(
      'The proxy port and the admin port are both 8080. Choose another one with --port or --admin-port.',
    );
  });
});

it('a reload that waits for the one before is left out once the process stops', async () => {
  const stop = Promise.withResolvers<void>();
  const running: (() => void)[] = [];
  let signal = (): void => {};
  const onReload = (next: () => void): void => {
    signal = next;
  };
  const stopped = untilStopped(
    { stop: stop.promise, onReload },
    () => new Promise((done) => running.push(done)),
  );
  signal();
  signal();
  stop.resolve();
  await stopped;
  expect(running).toHaveLength(1);
  running[0]?.();
  await new Promise((resolve) => setImmediate(resolve));
  expect(running).toHaveLength(1);
});
