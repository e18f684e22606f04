import { hash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LogLevel } from '../../src/config/schema/values.ts';
import { configSchema } from '../../src/config/schema.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { startCountersign } from '../../src/service/lifecycle.ts';
import type { ServiceOptions } from '../../src/service/shared.ts';
import { type ConfigInput, configFor, type EnvironmentInput } from './config.ts';
import { type Countersign, observe } from './countersign.ts';
import { Folder } from './folder.ts';
import { Ca } from './stub-vault/certificates.ts';
import { vectorText } from './vectors.ts';

export interface TestKeys {
  readonly controlKey?: string;
  /** PEM */
  readonly privateKey?: string;
}

/** What both ways to start a Countersign have in common. */
export interface StartOptions {
  /** Base URL of the environment `sandbox`. */
  readonly gateway?: string;
  /** Top-level fields that replace those of the usual configuration. */
  readonly config?: Partial<ConfigInput>;
  /** Fields that replace those of the environment `sandbox`. */
  readonly sandbox?: Partial<EnvironmentInput>;
  /** Keys by login; `acme` with both kinds unless given. */
  readonly keys?: Readonly<Record<string, TestKeys>>;
}

export interface ProxyOptions extends StartOptions, Partial<Omit<ServiceOptions, 'log'>> {
  /** `info` unless given. */
  readonly logLevel?: LogLevel;
  /** The proxy port has TLS, with a client CA, so that each connection passes through the guard of handshakes. */
  readonly tls?: boolean;
}

export interface TestProxy extends Countersign {
  /** The usual configuration with these top-level fields instead. @returns the fields that require a restart */
  readonly reload: (config: Partial<ConfigInput>) => Promise<readonly string[]>;
  readonly keysFolder: string;
  /** @returns whether all requests in flight have finished in time */
  readonly stop: () => Promise<boolean>;
}

export const testControlKey = 'B17F-mk/control=key+1';
export const testPrivateKey = vectorText('keys/rsa-2048-pkcs8.pem');
export const testKeys: Required<TestKeys> = { controlKey: testControlKey, privateKey: testPrivateKey };

/** No gateway listens there: the discard port. */
export const noGateway = 'http://127.0.0.1:9';

/** A real Countersign on free ports of loopback, with keys in a folder and an anonymous caller. */
export async function startProxy(options: ProxyOptions = {}): Promise<TestProxy> {
  const {
    gateway = noGateway,
    config,
    sandbox,
    keys = { acme: testKeys },
    logLevel = 'info',
    tls = false,
  } = options;
  const folder = new Folder();
  const own = tls ? listenerTls(folder) : undefined;
  for (const [login, both] of Object.entries(keys)) writeKeys(folder.path, 'sandbox', login, both);
  const chunks: string[] = [];
  const log = createLogger(logLevel, { write: (text: string) => void chunks.push(text) });
  const configOf = (overrides: Partial<ConfigInput> = {}) => {
    const inFolder = { source: 'directory', directory: folder.path } as const;
    const plain = configFor(gateway, { keys: inFolder, ...overrides }, sandbox);
    const input = own === undefined ? plain : { ...plain, proxy: { ...plain.proxy, tls: own.tls } };
    return { config: configSchema.parse(input), digest: hash('sha256', JSON.stringify(input)) };
  };
  const service = await startCountersign(configOf(config), { renderInterval: 0, ...options, log });
  // Like `countersign serve`.
  service.configLoaded();
  let stopped: Promise<boolean> | undefined;
  return {
    ...observe({ url: service.proxyUrl, adminUrl: service.adminUrl, ca: own?.ca }, () => chunks.join('')),
    reload: (overrides) => service.reload(configOf(overrides)),
    keysFolder: folder.path,
    stop: () => (stopped ??= service.stop(Promise.resolve()).finally(() => folder.remove())),
  };
}

/** PEM of a CA and of what it issued for listeners, by name: making them takes longer than starting a proxy. */
const listenerFiles = new Map<'ca' | 'cert' | 'key', string>();

/** The TLS files of a listener, in a folder. Those of all proxies of a test file have the same content. */
function listenerTls(folder: Folder) {
  if (listenerFiles.size === 0) {
    const ca = new Ca(folder.path, 'listener-ca');
    const { cert, key } = ca.issue('listener');
    listenerFiles.set('ca', String(ca.cert)).set('cert', String(cert)).set('key', String(key));
  }
  const file = (name: 'ca' | 'cert' | 'key'): string =>
    folder.file(`own.${name}`, listenerFiles.get(name) ?? '');
  const tls = { certFile: file('cert'), keyFile: file('key'), clientCaFile: file('ca') };
  return { tls, ca: Buffer.from(listenerFiles.get('ca') ?? '') };
}

export function writeKeys(folder: string, environment: string, login: string, keys: TestKeys): void {
  const home = join(folder, environment, login);
  mkdirSync(home, { recursive: true });
  if (keys.controlKey !== undefined) writeFileSync(join(home, 'control_key'), keys.controlKey);
  if (keys.privateKey !== undefined) writeFileSync(join(home, 'private_key.pem'), keys.privateKey);
}
