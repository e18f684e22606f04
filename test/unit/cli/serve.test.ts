import { describe, expect, it } from '@jest/globals';
import { reloadConfig, shutDown, untilStopped } from '../../../src/cli/serve.ts';
import { configSchema } from '../../../src/config/schema.ts';
import { createLogger } from '../../../src/observability/logger.ts';

/** A log, and its lines without their times. */
function startLog() {
  const lines: string[] = [];
  const write = (line: string): void => {
    const { time: _, level, msg, ...fields }: Record<string, unknown> = JSON.parse(line);
    lines.push([level, msg, ...Object.values(fields)].join(' '));
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
    'warn requests without credentials are accepted local 127.0.0.1',
    'warn requests that the grants do not allow are let through: mode is dry-run trial',
  ];
  const problems = [{ path: 'proxy.port', line: 3, message: 'is wrong' }];
  const wrong = 'c.yaml:3: proxy.port: is wrong';
  const keeping = 'configuration reload failed; keeping the current one';
  interface Case {
    readonly load?: Parameters<typeof reloadConfig>[0]['load'];
    /** Those that require a restart. */
    readonly fields?: readonly string[];
    readonly reopenAudit?: () => Promise<void>;
  }

  it.each<[string, Case, string[], problem: string | undefined, applied: number]>([
    [
      'is applied as a whole says so, and what is remarkable about callers',
      {},
      [...callers, 'info configuration reloaded'],
      undefined,
      1,
    ],
    [
      'requires a restart for a part names the fields, and is not successful',
      { fields: ['proxy.port', 'log.level'] },
      [...callers, 'warn configuration reloaded; some fields require a restart proxy.port, log.level'],
      'configuration reloaded; some fields require a restart: proxy.port, log.level',
      1,
    ],
    [
      'has an invalid file lists its problems, and changes nothing',
      { load: async () => ({ problems }) },
      [`error ${wrong}`, 'error 1 problem', `error ${keeping}: ${wrong}`],
      `${keeping}: ${wrong}`,
      0,
    ],
    [
      'fails says why',
      { load: () => Promise.reject(new Error('the file is gone')) },
      [`error ${keeping}: the file is gone`],
      `${keeping}: the file is gone`,
      0,
    ],
    [
      'cannot read the audit key again goes on',
      { reopenAudit: () => Promise.reject(new Error('the key is gone')) },
      [
        'error audit key cannot be read again; keeping the current one: the key is gone',
        ...callers,
        'info configuration reloaded',
      ],
      undefined,
      1,
    ],
  ])('that %s', async (_, given, expected, problem, times) => {
    const { load = async () => valid, fields = [], reopenAudit = async () => {} } = given;
    const { log, lines } = startLog();
    const [reported, applied]: [unknown[], unknown[]] = [[], []];
    const service = {
      reopenAudit,
      configLoaded: (value?: string) => void reported.push(value),
      reload: async (loaded: unknown) => {
        applied.push(loaded);
        return fields;
      },
    };
    await reloadConfig({ file: 'c.yaml', load }, service, log);
    expect({ lines, reported, applied: applied.length }).toEqual({
      lines: expected,
      reported: [problem],
      applied: times,
    });
  });
});

it.each([
  [true, 0, 'info stopped'],
  [false, 1, 'error shutdown timeout: requests still in flight'],
])('a shutdown in which all requests finished (%s) ends with code %i', async (finished, code, last) => {
  const { log, lines } = startLog();
  const skipDelay = Promise.resolve();
  const stop = async (given: Promise<unknown>) => given === skipDelay && finished;
  expect(await shutDown({ stop }, { skipDelay }, log)).toBe(code);
  expect(lines).toEqual([last]);
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
