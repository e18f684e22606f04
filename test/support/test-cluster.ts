import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { renameSync } from 'node:fs';
import type { z } from 'zod';
import type { vault } from '../../src/config/schema/keys.ts';
import { Secret } from '../../src/secret.ts';
import { type ListeningSimulator, listenSimulator } from '../../src/simulator/listen.ts';
import type { Simulator } from '../../src/simulator/simulator.ts';
import { parameter, type VerifiedRequest } from '../../src/simulator/verified-request.ts';
import type { Countersign } from './countersign.ts';
import { Folder } from './folder.ts';
import type { LoadRequest } from './load.ts';
import { type CountersignProcess, startProcess } from './process.ts';
import { loadScenario } from './scenario.ts';
import { marksIn } from './secret-canaries.ts';
import { RequestCounter } from './simulator.ts';
import { VaultAdmin } from './stub-vault/admin.ts';
import { approleMount, roleName } from './stub-vault/harness.ts';
import { StubVault } from './stub-vault/server.ts';
import { rootToken } from './stub-vault/state.ts';

type VaultAuth = z.input<typeof vault>['auth'];

/** Both keys of a login, and the public key that the gateway has. */
export interface KeySet {
  readonly controlKey: string;
  readonly privateKey: string;
  readonly publicKey: KeyObject;
  /** In place of the private key: the reference to one that does not leave Vault. */
  readonly transitKey?: string;
}

/** A server that speaks Vault's protocol, with a mount of KV version 2 at `secret`. */
export interface KeyServer {
  readonly address: string;
  readonly admin: VaultAdmin;
  /** For Countersign, if the server uses TLS. */
  readonly caFile?: string;
}

/** Durations as in the configuration file. */
interface TestClusterOptions {
  readonly logins: readonly string[];
  readonly fresh: string;
  readonly vaultTimeout?: string;
  /** Holds the keys instead of the stub. Closed by the test that started it. */
  readonly server?: KeyServer;
  /** Logins by endpoint; only 1234, of the first login, unless given. */
  readonly endpoints?: Readonly<Record<string, string>>;
}

/**
 * A complete installation: Vault and the gateway in this process, Countersign in separate processes. It knows
 * every secret, so that all output and responses can be searched for them.
 */
export class TestCluster {
  readonly vault = new StubVault();
  readonly #folder = new Folder();
  readonly processes: CountersignProcess[] = [];
  readonly #ended: CountersignProcess[] = [];
  /** Order ids of the transfers that the gateway accepted. */
  readonly transfers: string[] = [];
  /** Initial keys of every login. */
  readonly first: KeySet;
  readonly #options: TestClusterOptions;
  readonly #marks: Record<string, string> = { rootToken };
  admin = new VaultAdmin('', '');
  #gateway: ListeningSimulator | undefined;
  readonly #seen = new RequestCounter();

  constructor(options: TestClusterOptions) {
    this.#options = options;
    this.first = this.newKeys();
  }

  get #endpoints(): Readonly<Record<string, string>> {
    const { endpoints, logins } = this.#options;
    return endpoints ?? Object.fromEntries(logins.slice(0, 1).map((login) => ['1234', login]));
  }

  /** Vault with a role that may read the keys, and the gateway. */
  async open(): Promise<this> {
    const { logins, server } = this.#options;
    this.admin = server?.admin ?? new VaultAdmin(await this.vault.listen(), rootToken);
    await this.admin.enable('auth', approleMount, { type: 'approle' });
    await this.admin.enable('mounts', 'transit', { type: 'transit' });
    await this.admin.policy(roleName);
    await this.putAllInVault();
    this.#gateway = await listenSimulator({
      scenario: loadScenario(
        JSON.stringify({
          logins: Object.fromEntries(logins.map(withBalance)),
          endpoints: [...Object.keys(this.#endpoints), '1235'],
        }),
      ),
      keys: new Map(logins.map((login) => [login, acceptedOf(this.first)])),
      clock: () => Date.now(),
      onHandled: this.#seen.onHandled,
      fault: (operation, call) => this.#recordTransfer(operation, call),
      port: 0,
    });
    return this;
  }

  /** The initial keys of every login. */
  async putAllInVault(): Promise<void> {
    await Promise.all(this.#options.logins.map((login) => this.putInVault(login, this.first)));
  }

  get gateway(): Simulator & { readonly seen: RequestCounter } {
    if (this.#gateway === undefined) throw new Error('the cluster is not open');
    return { ...this.#gateway.simulator, seen: this.#seen };
  }

  newKeys(): KeySet {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
    const controlKey = this.#secret(`MARK-control-key-${randomUUID()}~/+=`);
    // Three lines within its private part.
    for (const line of pem.split('\n').slice(10, 13)) this.#secret(line);
    return { controlKey, privateKey: pem, publicKey };
  }

  /** The RSA key is in Vault's Transit engine. @param name of that key, which is new */
  async newTransitKeys(name: string): Promise<KeySet> {
    const publicKey = await this.admin.newTransitKey(name);
    return { ...this.newKeys(), publicKey, transitKey: `${name}:1` };
  }

  /** Registers a text that must not leak. */
  #secret(text: string): string {
    this.#marks[`${Object.keys(this.#marks).length}: ${text}`] = text;
    return text;
  }

  async putInVault(login: string, keys: KeySet): Promise<void> {
    await this.admin.put(`gateway/sandbox/${login}`, secretOf(keys));
  }

  /** From now on the gateway accepts only these keys; without keys it rejects everything. */
  acceptOnly(login: string, ...sets: readonly KeySet[]): void {
    this.gateway.keys.set(login, acceptedOf(...sets));
  }

  /** Creates the role that may read the keys, and a secret ID of it in a file. */
  async appRole(): Promise<VaultAuth> {
    const settings = { token_policies: [roleName], token_ttl: 3600 };
    const roleId = await this.admin.role(approleMount, roleName, settings);
    return { method: 'approle', roleId, secretIdFile: await this.newSecretId() };
  }

  /** Writes a new secret ID to the file of the role, and returns the file. */
  async newSecretId(settings: object = {}): Promise<string> {
    const secretId = this.#secret(await this.admin.secretId(approleMount, roleName, settings));
    const file = this.#folder.at('secret-id');
    // A process never sees an empty file.
    renameSync(this.#folder.file('secret-id.next', secretId), file);
    return file;
  }

  async startProcesses(count: number, auth: VaultAuth): Promise<readonly CountersignProcess[]> {
    const { fresh, vaultTimeout, server } = this.#options;
    const config = {
      proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown: '2s' } },
      environments: {
        sandbox: { baseUrl: this.#gateway?.url ?? '', product: 'gw', endpoints: this.#endpoints },
      },
      keys: {
        source: 'vault' as const,
        vault: {
          address: server?.address ?? this.vault.address,
          timeout: vaultTimeout,
          auth,
          transit: { mounts: { sandbox: 'transit' } },
          caFile: server?.caFile,
        },
        cache: { ttl: fresh },
      },
    };
    const started = await Promise.all(
      Array.from({ length: count }, () => startProcess({ config, keys: {} })),
    );
    this.processes.push(...started);
    return started;
  }

  /** Ends the processes; {@link leaks} searches what they printed too. */
  async endProcesses(): Promise<void> {
    await this.#stop();
    this.#ended.push(...this.processes.splice(0));
  }

  /** Number of reads of keys from Vault. */
  get vaultReads(): number {
    return this.vault.count(/^GET secret\/data/);
  }

  /** Sum of a metric over all processes. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const values = await Promise.all(this.processes.map((one) => one.metric(name, labels)));
    return values.reduce<number>((sum, value = 0) => sum + value, 0);
  }

  /**
   * Planted secrets and issued Vault tokens in the output and metrics of the processes, or in these texts, in any usual
   * encoding. Stops the processes, since they print something at the end.
   */
  async leaks(...texts: readonly string[]): Promise<readonly string[]> {
    await this.#stop();
    const text = [...texts, ...this.#all.map((one) => one.seen())].join('\n');
    const tokens = this.vault.seen.flatMap(({ headers }) => headers['x-vault-token'] ?? []).map(String);
    return marksIn(text, { ...this.#marks, ...Object.fromEntries(tokens.map((token) => [token, token])) });
  }

  async close(): Promise<void> {
    await this.#stop();
    await this.#gateway?.close();
    await this.vault.close();
    await Promise.all(this.#all.map((one) => one.close()));
    this.#folder.remove();
  }

  get #all(): readonly CountersignProcess[] {
    return [...this.#ended, ...this.processes];
  }

  async #stop(): Promise<void> {
    check(await Promise.all(this.processes.map((one) => one.stop())));
  }

  #recordTransfer(operation: string, call: VerifiedRequest): undefined {
    if (operation === 'transfer') this.transfers.push(parameter(call, 'client_orderid') ?? '');
  }
}

/** The fields of a login's secret. */
export function secretOf({ controlKey, privateKey, transitKey }: KeySet): Record<string, string> {
  const rsa = transitKey === undefined ? { private_key: privateKey } : { transit_key: transitKey };
  return { control_key: controlKey, ...rsa };
}

/** @throws Error if a process did not end well */
function check(codes: readonly (number | null)[]): void {
  if (codes.some((code) => code !== 0)) throw new Error(`processes ended with ${codes.join(', ')}`);
}

function acceptedOf(...sets: readonly KeySet[]) {
  return {
    controlKeys: sets.map(({ controlKey }) => new Secret(controlKey)),
    publicKeys: sets.map(({ publicKey }) => publicKey),
  };
}

function withBalance(login: string) {
  return [login, { balances: [{ name: 'Main', currency: 'EUR', amount: 100 }] }] as const;
}

export const balanceOf = ({ url }: Countersign, login: string): LoadRequest => ({
  name: `balance ${login}`,
  url: `${url}/sandbox/gw/api/v2/get-balance/manager/${login}`,
  form: '',
});

export const statusOf = ({ url }: Countersign, login: string): LoadRequest => ({
  name: `status ${login}`,
  url: `${url}/sandbox/gw/api/v4/status/1235`,
  form: `login=${login}&client_orderid=invoice-1`,
});

/** Of the login that has the endpoint, with a unique order ID. */
export const transferOf = ({ url }: Countersign): LoadRequest => ({
  name: 'transfer',
  url: `${url}/sandbox/gw/api/v4/transfer/1234`,
  form: `client_orderid=${randomUUID()}&amount=1.00&currency=EUR`,
});
