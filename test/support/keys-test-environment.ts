import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createPublicKey } from 'node:crypto';
import { text } from 'node:stream/consumers';
import type { z } from 'zod';
import { keys } from '../../src/cli/keys/keys.ts';
import type { configSchema } from '../../src/config/schema.ts';
import { Secret } from '../../src/secret.ts';
import { type CommandResult, runCommandHere } from './cli.ts';
import { Folder } from './folder.ts';
import { startSimulator, type TestSimulator } from './simulator.ts';
import { root } from './sources.ts';
import { VaultAdmin } from './stub-vault/admin.ts';
import { StubVault } from './stub-vault/server.ts';
import { rootToken } from './stub-vault/state.ts';
import { vectorText } from './vectors.ts';

type ConfigInput = z.input<typeof configSchema>;

export const oldKey = vectorText('keys/rsa-2048-pkcs8.pem');
/** SHA-256 of the public key, by `openssl pkey -pubin -outform DER | sha256sum`. */
export const oldFingerprint = '4d171a1336111d276a2f675497a130a261c9d55e45c07775bd71aa601e6231c8';
export const oldControlKey = 'planted-control-key-1';
export const newControlKey = 'planted-control-key-2';

/** Vault (the stub unless given) and a gateway (the simulator), and a configuration that names them. */
export class KeysTestEnvironment {
  readonly folder = new Folder();
  readonly vault = new StubVault();
  admin = new VaultAdmin('', '');
  configFile = '';
  #gateway: TestSimulator | undefined;
  /** Everything that commands have printed. */
  readonly printed: string[] = [];

  /** @param admin of another server in place of the stub */
  async open(admin?: VaultAdmin): Promise<this> {
    // Not the login of whoever runs the tests.
    process.env['HOME'] = this.folder.path;
    for (const name of ['VAULT_ADDR', 'VAULT_TOKEN', 'VAULT_NAMESPACE', 'VAULT_CACERT'])
      delete process.env[name];
    this.admin = admin ?? new VaultAdmin(await this.vault.listen(), rootToken);
    this.#gateway = await startSimulator({ clock: Date.now, keys: new Map() });
    this.folder.file('token', rootToken);
    this.configFile = this.writeConfig('config.yaml');
    return this;
  }

  get gateway(): TestSimulator {
    if (this.#gateway === undefined) throw new Error('not open');
    return this.#gateway;
  }

  /** Sets the keys that the gateway accepts for `acme`. For a private key, that is its public key. */
  accept(controlKeys: readonly string[], keyTexts: readonly string[]): void {
    this.gateway.simulator.keys.set('acme', {
      controlKeys: controlKeys.map((key) => new Secret(key)),
      publicKeys: keyTexts.map((key) => createPublicKey(key)),
    });
  }

  writeConfig(name: string, changed: Partial<ConfigInput> = {}): string {
    const { address } = this.admin;
    const config: ConfigInput = {
      environments: {
        sandbox: { baseUrl: this.gateway.url, product: 'gw', endpoints: { '1234': 'acme' } },
      },
      keys: { source: 'vault', vault: { address, auth: { method: 'token', tokenFile: 'token' } } },
      ...changed,
    };
    return this.folder.file(name, JSON.stringify(config));
  }

  /** Runs `countersign keys` in this process, for `sandbox` unless given. @param line words, before options with blanks */
  async run(line: string, ...options: readonly string[]): Promise<CommandResult> {
    const ran = await runCommandHere(keys, ...this.#argv(line, options));
    this.printed.push(ran.out, ran.err);
    return ran;
  }

  /** Runs it as a separate process, for input through standard input. */
  start(line: string, ...options: readonly string[]) {
    const argv = ['src/main.ts', 'keys', ...this.#argv(line, options)];
    const child = spawn(process.execPath, argv, { cwd: root, env: { ...process.env } });
    return { child, ended: this.#ended(child) };
  }

  /** The fields of the current version in Vault. */
  async fields(login = 'acme'): Promise<Record<string, unknown>> {
    const { data } = await this.admin.request('GET', `secret/data/gateway/sandbox/${login}`);
    return Object.assign({}, data?.['data']);
  }

  async put(fields: object, login = 'acme'): Promise<void> {
    await this.admin.put(`gateway/sandbox/${login}`, fields);
  }

  /** Deletes all secrets of `acme`. */
  async forget(): Promise<void> {
    await this.admin.request('DELETE', 'secret/metadata/gateway/sandbox/acme');
  }

  async close(): Promise<void> {
    await this.vault.close();
    await this.#gateway?.close();
    this.folder.remove();
  }

  #argv(line: string, more: readonly string[]): string[] {
    const [subcommand = '', ...words] = line.split(' ');
    const options = [...words, ...more];
    return [
      subcommand,
      ...(options.includes('--config') ? [] : ['--config', this.configFile]),
      ...(options.includes('--environment') ? [] : ['--environment', 'sandbox']),
      ...options,
    ];
  }

  async #ended(child: ChildProcessWithoutNullStreams): Promise<CommandResult> {
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    this.printed.push(out, err);
    return { code: await exited, out, err };
  }
}
