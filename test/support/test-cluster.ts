import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { Secret } from '../../src/secret.ts';
import { type ListeningSimulator, listenSimulator } from '../../src/simulator/listen.ts';
import { parameter } from '../../src/simulator/verified-request.ts';
import type { Countersign } from './countersign.ts';
import type { LoadRequest } from './load.ts';
import { type CountersignProcess, startProcess } from './process.ts';
import { loadScenario } from './scenario.ts';
import { RequestCounter } from './simulator.ts';
import { vaultKeys } from './stub-vault/harness.ts';
import { StubVault } from './stub-vault/server.ts';

/** Both keys of a login, and the public key that the gateway has. */
export interface KeySet {
  readonly controlKey: string;
  readonly privateKey: string;
  readonly publicKey: KeyObject;
}

export function newKeys(): KeySet {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  return { controlKey: randomUUID(), privateKey: pem, publicKey };
}

/** A complete installation: Vault and the gateway in this process, Countersign in separate processes. */
export class TestCluster {
  readonly processes: CountersignProcess[] = [];
  /** Order ids of the transfers that the gateway accepted. */
  readonly transfers: string[] = [];
  /** What the gateway received. */
  readonly seen = new RequestCounter();
  /** Initial keys of every login. */
  readonly first = newKeys();
  readonly #vault = new StubVault();
  readonly #endpoints: Readonly<Record<string, string>>;
  #gateway: ListeningSimulator | undefined;

  /** @param endpoints the login of each */
  constructor(endpoints: Readonly<Record<string, string>>) {
    this.#endpoints = endpoints;
  }

  async open(instances: number): Promise<void> {
    const address = await this.#vault.listen();
    const logins = Object.values(this.#endpoints);
    for (const login of logins) this.putInVault(login, this.first);
    const balances = [{ name: 'Main', currency: 'EUR', amount: 100 }];
    const scenario = {
      logins: Object.fromEntries(logins.map((login) => [login, { balances }])),
      endpoints: [...Object.keys(this.#endpoints), '1235'],
    };
    this.#gateway = await listenSimulator({
      scenario: loadScenario(JSON.stringify(scenario)),
      keys: new Map(logins.map((login) => [login, acceptedOf(this.first)])),
      clock: () => Date.now(),
      onHandled: this.seen.onHandled,
      fault: (operation, call) => {
        if (operation === 'transfer') this.transfers.push(parameter(call, 'client_orderid') ?? '');
        return undefined;
      },
      port: 0,
    });
    const config = {
      proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown: '2s' } },
      environments: {
        sandbox: { baseUrl: this.#gateway.url, product: 'gw', endpoints: this.#endpoints },
      },
      keys: vaultKeys(address, {}, { cache: { ttl: '60s' } }),
    };
    const starting = Array.from({ length: instances }, () => startProcess({ config, keys: {} }));
    this.processes.push(...(await Promise.all(starting)));
  }

  putInVault(login: string, { controlKey, privateKey }: KeySet): void {
    this.#vault.put(`gateway/sandbox/${login}`, { control_key: controlKey, private_key: privateKey });
  }

  /** From now on the gateway accepts only these keys. */
  acceptOnly(login: string, ...sets: readonly KeySet[]): void {
    this.#gateway?.simulator.keys.set(login, acceptedOf(...sets));
  }

  /** Number of reads of keys from Vault. */
  get vaultReads(): number {
    return this.#vault.count(/^GET secret\/data/);
  }

  /** @throws Error if a process did not end well */
  async endProcesses(): Promise<void> {
    const codes = await Promise.all(this.processes.map((one) => one.stop()));
    if (codes.some((code) => code !== 0)) throw new Error(`processes ended with ${codes.join(', ')}`);
  }

  async close(): Promise<void> {
    await Promise.all(this.processes.map((one) => one.close()));
    await this.#gateway?.close();
    await this.#vault.close();
  }
}

function acceptedOf(...sets: readonly KeySet[]) {
  return {
    controlKeys: sets.map(({ controlKey }) => new Secret(controlKey)),
    publicKeys: sets.map(({ publicKey }) => publicKey),
  };
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
