import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { z } from 'zod';
import { configSchema } from '../../src/config/schema.ts';
import { createLogger, type LogLevel } from '../../src/observability/logger.ts';
import { type ServiceOptions, startService } from '../../src/server/service.ts';

type ConfigInput = z.input<typeof configSchema>;

export interface TestKeys {
  readonly controlKey?: string;
  /** PEM */
  readonly privateKey?: string;
}

export interface ProxyOptions extends Partial<Omit<ServiceOptions, 'log'>> {
  /** Base URL of the environment `sandbox`. */
  readonly gateway: string;
  /** Laid over the defaults, one top-level key at a time. */
  readonly config?: Partial<ConfigInput>;
  /** Laid over the fields of the environment `sandbox`. */
  readonly sandbox?: Partial<ConfigInput['environments'][string]>;
  /** `info` unless given. */
  readonly logLevel?: LogLevel;
  /** Keys by login; `acme` with both kinds unless given. */
  readonly keys?: Readonly<Record<string, TestKeys>>;
}

export interface TestProxy {
  readonly url: string;
  readonly adminUrl: string;
  /** Everything logged so far, as text and as objects. */
  readonly logText: () => string;
  readonly logLines: () => Record<string, unknown>[];
  readonly metrics: () => Promise<string>;
  readonly reload: (config: Partial<ConfigInput>) => Promise<readonly string[]>;
  readonly keysFolder: string;
  stop(): Promise<boolean>;
}

export const testControlKey = 'B17F-mk/control=key+1';
export const testPrivateKey = readFileSync(
  new URL('../vectors/keys/rsa-2048-pkcs8.pem', import.meta.url),
  'utf8',
);

/** A real Countersign on free ports of loopback, with keys in a folder and an anonymous caller. */
export async function startProxy(options: ProxyOptions): Promise<TestProxy> {
  const keysFolder = mkdtempSync(join(tmpdir(), 'countersign-test-'));
  const keys = options.keys ?? { acme: { controlKey: testControlKey, privateKey: testPrivateKey } };
  for (const [login, both] of Object.entries(keys)) writeKeys(keysFolder, 'sandbox', login, both);
  const chunks: string[] = [];
  const log = createLogger(options.logLevel ?? 'info', { write: (text: string) => void chunks.push(text) });
  const configOf = (overrides: Partial<ConfigInput>) =>
    configSchema.parse({
      proxy: { port: 0 },
      admin: { port: 0 },
      environments: {
        sandbox: {
          baseUrl: options.gateway,
          product: 'gw',
          endpoints: { '1234': 'acme' },
          ...options.sandbox,
        },
      },
      keys: { source: 'directory', directory: keysFolder },
      callers: [
        {
          name: 'local',
          credentials: [{ anonymous: true }],
          allow: [{ environments: ['*'], operations: ['*'], logins: ['*'] }],
        },
      ],
      ...overrides,
    });
  const service = await startService(configOf(options.config ?? {}), { ...options, log });
  // As serve does.
  service.configLoaded(true);
  return {
    url: service.proxyUrl,
    adminUrl: service.adminUrl,
    logText: () => chunks.join(''),
    logLines: () => chunks.map((line) => JSON.parse(line)),
    metrics: async () => (await fetch(`${service.adminUrl}/metrics`)).text(),
    reload: (config) => service.reload(configOf(config)),
    keysFolder,
    stop: async () => {
      const inTime = await service.stop(Promise.resolve());
      rmSync(keysFolder, { recursive: true, force: true });
      return inTime;
    },
  };
}

export function writeKeys(folder: string, environment: string, login: string, keys: TestKeys): void {
  const home = join(folder, environment, login);
  mkdirSync(home, { recursive: true });
  if (keys.controlKey !== undefined) writeFileSync(join(home, 'control_key'), keys.controlKey);
  if (keys.privateKey !== undefined) writeFileSync(join(home, 'private_key.pem'), keys.privateKey);
}
