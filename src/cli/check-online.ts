import { readFile } from 'node:fs/promises';
import type { Config, EnvironmentConfig, KeysConfig } from '../config/shape.ts';
import type { KeyEvents, KeySource } from '../keys/source.ts';
import { checkKeys } from './check-keys.ts';
import { connectTo } from './connect.ts';
import { exitCode, type Io } from './io.ts';
import { openInventory } from './key-inventory.ts';
import { openSource } from './key-source.ts';
import { type OnlineRow, timedRow } from './online-row.ts';
import { messageOf } from './options.ts';
import { table } from './table.ts';

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

function cells({ check, subject, result, milliseconds, detail }: OnlineRow): string[] {
  return [check, subject, result, milliseconds === undefined ? '-' : `${milliseconds} ms`, detail];
}

function checkGateway(name: string, settings: EnvironmentConfig): Promise<OnlineRow> {
  const connect = async (): Promise<string> => {
    const ca = settings.caFile === undefined ? undefined : await readFile(settings.caFile, 'utf8');
    return `${settings.baseUrl}: ${await connectTo(settings.baseUrl, ca, settings.deadlines.connect)}`;
  };
  const explain = (error: unknown) => `${settings.baseUrl}: ${messageOf(error)}`;
  return timedRow({ check: 'gateway', subject: name }, connect, explain);
}

/** The key source's own row, and those of the keys where it can be asked. */
async function checkSource(config: Config): Promise<OnlineRow[]> {
  const { keys } = config;
  const about = {
    check: keys.source,
    subject: keys.source === 'vault' ? keys.vault.address : keys.directory,
  };
  if (isUsedUpByLogin(keys)) {
    const detail = 'a wrapped secret id works once; it is left to the proxy';
    return [{ ...about, result: 'not-checked', detail }];
  }
  const login = new FirstLogin();
  const source = openSource(keys, {
    events: login,
    clock: () => Date.now(),
    monotonic: () => performance.now(),
    random: () => Math.random(),
  });
  const inventory = openInventory(keys);
  try {
    source.start();
    const enter = keys.source === 'vault' ? () => login.outcome : async () => canBeRead(source);
    const row = await timedRow(about, enter, messageOf);
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

function canBeRead(source: KeySource): string {
  if (!source.ready()) throw new Error('the folder cannot be read');
  return 'the folder can be read';
}

/** Learns from what a started Vault source tells how its first login went; that event comes first. */
class FirstLogin implements KeyEvents {
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

  sourceTokenExpires(at: number | undefined): void {
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

  keyTaken(): void {}
  keyFetched(): void {}
  ringChanged(): void {}
  keySourceUp(): void {}
}
