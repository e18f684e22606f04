import { readFile } from 'node:fs/promises';
import type { Config, EnvironmentConfig, KeysConfig } from '../../config/schema.ts';
import type { KeySource, KeySourceObserver } from '../../keys/key-source.ts';
import { createKeySource } from '../../server/key-source.ts';
import { openInventory } from '../shared/inventory.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { messageOf } from '../shared/parse-options.ts';
import { table } from '../shared/table.ts';
import { probeConnection } from './gateway.ts';
import { checkKeys } from './keys.ts';
import { type CheckResult, runCheck } from './result.ts';

/**
 * Looks whether a configuration works from here: logs in to the key source, reads every key that the grants
 * need, connects to each gateway. Prints a table, or JSON. Gives the exit code: 1 where anything failed.
 */
export async function checkOnline(config: Config, json: boolean, io: Io): Promise<number> {
  const gateways = Promise.all(
    Object.entries(config.environments).map(([name, settings]) => checkGateway(name, settings)),
  );
  const rows = [...(await checkSource(config)), ...(await gateways)];
  const ok = rows.every(({ result }) => result !== 'failed');
  if (json) io.out(JSON.stringify({ ok, checks: rows }, null, 2));
  else for (const line of table(head, rows.map(cells))) io.out(line);
  return ok ? exitCode.done : exitCode.failed;
}

const head = ['CHECK', 'SUBJECT', 'RESULT', 'TIME', 'DETAIL'];

function cells({ check, subject, result, milliseconds, detail }: CheckResult): string[] {
  return [check, subject, result, milliseconds === undefined ? '-' : `${milliseconds} ms`, detail];
}

function checkGateway(name: string, settings: EnvironmentConfig): Promise<CheckResult> {
  const connect = async (): Promise<string> => {
    const ca = settings.caFile === undefined ? undefined : await readFile(settings.caFile, 'utf8');
    return `${settings.baseUrl}: ${await probeConnection(settings.baseUrl, ca, settings.timeouts.connect)}`;
  };
  const explain = (error: unknown) => `${settings.baseUrl}: ${messageOf(error)}`;
  return runCheck({ check: 'gateway', subject: name }, connect, explain);
}

/** The key source's own row, and those of the keys where it can be asked. */
async function checkSource(config: Config): Promise<CheckResult[]> {
  const { keys } = config;
  const about = {
    check: keys.source,
    subject: keys.source === 'vault' ? keys.vault.address : keys.directory,
  };
  if (isUsedUpByLogin(keys)) {
    const detail = 'a wrapped secret id works once; it is left to the proxy';
    return [{ ...about, result: 'not-checked', detail }];
  }
  const login = new LoginProbe();
  const source = createKeySource(keys, {
    events: login,
    clock: () => Date.now(),
    monotonic: () => performance.now(),
    random: () => Math.random(),
  });
  const inventory = openInventory(keys);
  try {
    source.start();
    const enter = keys.source === 'vault' ? () => login.outcome : async () => assertReadable(source);
    const row = await runCheck(about, enter, messageOf);
    return row.result === 'failed' ? [row] : [row, ...(await checkKeys(config, source, inventory))];
  } finally {
    await Promise.all([source.stop(), inventory.close()]);
  }
}

function isUsedUpByLogin(keys: KeysConfig): boolean {
  return (
    keys.source === 'vault' &&
    keys.vault.auth.method === 'approle' &&
    keys.vault.auth.wrappedSecretIdFile !== undefined
  );
}

function assertReadable(source: KeySource): string {
  if (!source.ready()) throw new Error('the folder cannot be read');
  return 'the folder can be read';
}

/** Learns from what a started Vault source tells how its first login went; that event comes first. */
class LoginProbe implements KeySourceObserver {
  /** What there is to tell of the token. Rejects with the problem. */
  readonly outcome: Promise<string>;
  readonly #entered: (detail: string) => void;
  readonly #failed: (error: Error) => void;

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    // Whoever waits for the outcome hears of it; nobody does where the source is a directory.
    promise.catch(() => {});
    this.outcome = promise;
    this.#entered = resolve;
    this.#failed = reject;
  }

  tokenExpiryChanged(at: number | undefined): void {
    const end =
      at === undefined ? 'without an end' : `until ${new Date(at * 1000).toISOString().slice(0, 19)}Z`;
    this.#entered(`logged in, token ${end}`);
  }

  loginFailed(problem: string): void {
    this.#failed(new Error(problem));
  }

  keyProblem(problem: string): void {
    this.#failed(new Error(problem));
  }

  keyLookup(): void {}
  keyFetched(): void {}
  keyRingUpdated(): void {}
  keySourceUp(): void {}
}
