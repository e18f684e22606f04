import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { freePort } from './faulty-gateway.ts';
import { Folder } from './folder.ts';
import { bound, KubernetesApi } from './kubernetes-api.ts';
import type { FailingVault, VaultTrust } from './outages.ts';
import { type Relay, startRelay } from './relay.ts';
import { VaultAdmin } from './stub-vault/admin.ts';
import type { Issued } from './stub-vault/certificates.ts';
import { startFailingStub } from './stub-vault/failing-stub.ts';
import { roleName } from './stub-vault/harness.ts';
import type { StubVault } from './stub-vault/server.ts';
import { until } from './until.ts';
import { policyText } from './vault-policies.ts';

const initialized = z.object({ root_token: z.string(), keys: z.tuple([z.string()]) });
const quota = 'sys/quotas/rate-limit/reads';
/** Seconds that a start may take. */
const startTimeout = 20;

export type StartedVault = FailingVault & { readonly stub?: StubVault };

interface Startable {
  readonly server: string;
  readonly start: (trust: VaultTrust) => Promise<StartedVault>;
}

/** The stub, and a real server if VAULT_BIN is set. */
export const failingVaults = ((program?: string): readonly Startable[] => {
  const stub = { server: 'the stub', start: startFailingStub };
  if (program !== undefined)
    return [stub, { server: 'a real server', start: (trust) => startRealVault(program, trust) }];
  process.stderr.write('skipped: outages of a real server (set VAULT_BIN)\n');
  return [stub];
})(process.env['VAULT_BIN']);

/**
 * A server of `vault` or `bao`, with its storage in a directory, TLS, and the deployed policy. Countersign reaches it
 * through a TCP proxy, so that its connections can be closed: a server that changes its certificate keeps them open.
 */
export async function startRealVault(program: string, trust: VaultTrust): Promise<FailingVault> {
  const server = new RealVault(program);
  await server.start(trust.issue());
  const { admin } = server;
  const api = new KubernetesApi();
  await admin.enable('mounts', 'secret', { type: 'kv', options: { version: '2' } });
  await waitFor(async () => (await admin.send('GET', 'secret/config')).status === 200);
  return {
    address: `https://127.0.0.1:${server.port}`,
    caFile: trust.caFile,
    policy: policyText('proxy', 'sandbox', true).replaceAll('transit-sandbox', 'transit'),
    admin,
    kill: () => server.kill(),
    restart: () => server.run(),
    hang: async () => server.signal('SIGSTOP'),
    resume: async () => server.signal('SIGCONT'),
    seal: async () => void (await admin.request('PUT', 'sys/seal')),
    unseal: () => server.unseal(),
    async limitRate(mount = 'secret') {
      // Long enough that nothing gets through during the outage.
      await admin.request('POST', quota, { path: `${mount}/`, rate: 1, interval: '60s' });
      await waitFor(async () => (await admin.send('GET', `${mount}/data/any`)).status === 429);
    },
    async acceptServiceAccount() {
      if (api.isUp) return;
      await api.listen();
      await admin.enable('auth', 'kubernetes', { type: 'kubernetes' });
      await admin.request('POST', 'auth/kubernetes/config', {
        kubernetes_host: api.address,
        // Required, and not used for http.
        kubernetes_ca_cert: trust.ca.cert.toString(),
        disable_local_ca_jwt: true,
      });
      const role = { ...bound, token_policies: [roleName], token_ttl: 3600 };
      await admin.request('POST', `auth/kubernetes/role/${roleName}`, role);
    },
    kubernetesApi: (isUp) => (isUp ? api.listen() : api.close()),
    liftRateLimit: async () => void (await admin.request('DELETE', quota)),
    show: (certificate) => server.show(certificate),
    reads: () => server.reads(),
    async close() {
      await api.close();
      await server.close();
    },
  };
}

/** One of the two listeners for Countersign: a certificate is replaced in the one that is not in use. */
interface Listener {
  readonly port: number;
  readonly certFile: string;
  readonly keyFile: string;
}

class RealVault {
  /** Countersign's connections. */
  #front: Relay | undefined;
  port = 0;
  readonly #program: string;
  readonly #folder = new Folder();
  #listeners: readonly [Listener, Listener] | undefined;
  #inUse: Listener | undefined;
  #child: ChildProcess | undefined;
  #unsealKey = '';
  #printed = '';
  admin = new VaultAdmin('', '');

  constructor(program: string) {
    this.#program = program;
  }

  async start(certificate: Issued): Promise<void> {
    const adminAddress = `http://127.0.0.1:${await freePort()}`;
    this.#listeners = [await this.#listener('a'), await this.#listener('b')];
    for (const listener of this.#listeners) install(certificate, listener);
    this.#folder.file('server.json', JSON.stringify(this.#settings(adminAddress)));
    this.admin = new VaultAdmin(adminAddress, '');
    this.#spawn();
    await waitFor(() => this.#responds());
    const { text } = await this.admin.send('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 });
    const { root_token, keys } = initialized.parse(JSON.parse(text));
    this.admin = new VaultAdmin(adminAddress, root_token);
    this.#unsealKey = keys[0];
    await this.unseal();
    this.#inUse = this.#listeners[0];
    await this.#openFront();
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
    // Nothing listens at the address of a killed server.
    await this.#front?.close();
  }

  /** After {@link kill}. */
  async run(): Promise<void> {
    this.#spawn();
    await waitFor(() => this.#responds());
    await this.#openFront();
    await this.unseal();
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  async unseal(): Promise<void> {
    await this.admin.send('PUT', 'sys/unseal', { key: this.#unsealKey });
    await waitFor(async () => (await this.admin.send('GET', 'sys/health')).status === 200);
  }

  /** The server reloads its certificates on SIGHUP. */
  async show(certificate: Issued): Promise<void> {
    const other = this.#listeners?.find((listener) => listener !== this.#inUse);
    if (other === undefined) throw new Error('the server was not started');
    install(certificate, other);
    this.signal('SIGHUP');
    await wait(500);
    this.#inUse = other;
    this.#front?.leadTo(other.port);
    this.#front?.drop();
  }

  async reads(): Promise<number | undefined> {
    const page = await Promise.race([
      this.admin.send('GET', 'sys/metrics?format=prometheus').catch(() => undefined),
      wait(300, undefined, { ref: false }),
    ]);
    if (page?.status !== 200) return undefined;
    return Number(/^vault_route_read_secret__count (\d+)$/m.exec(page.text)?.[1] ?? 0);
  }

  async close(): Promise<void> {
    await this.#end('SIGKILL');
    await this.#front?.close();
    this.#folder.remove();
  }

  /** Always on the same port. */
  async #openFront(): Promise<void> {
    this.#front = await startRelay(this.#inUse?.port ?? 0, this.port);
    this.port = this.#front.port;
  }

  #spawn(): void {
    const args = ['server', `-config=${this.#folder.path}/server.json`];
    const child = spawn(this.#program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (chunk) => (this.#printed += String(chunk)));
    }
    this.#child = child;
  }

  async #responds(): Promise<boolean> {
    if (this.#child?.exitCode !== null) throw new Error(`the server ended:\n${this.#printed}`);
    return (await this.admin.send('GET', 'sys/health').catch(() => undefined)) !== undefined;
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  async #listener(name: string): Promise<Listener> {
    const at = (file: string) => `${this.#folder.path}/${name}.${file}`;
    return { port: await freePort(), certFile: at('crt'), keyFile: at('key') };
  }

  #settings(adminAddress: string): object {
    const plain = { address: new URL(adminAddress).host, tls_disable: true };
    const secure = (this.#listeners ?? []).map(({ port, certFile, keyFile }) => ({
      address: `127.0.0.1:${port}`,
      tls_cert_file: certFile,
      tls_key_file: keyFile,
    }));
    return {
      storage: { file: { path: `${this.#folder.path}/storage` } },
      listener: [plain, ...secure].map((tcp) => ({ tcp })),
      api_addr: adminAddress,
      disable_mlock: true,
      telemetry: { prometheus_retention_time: '1h', disable_hostname: true },
    };
  }
}

function install({ cert, key }: Issued, { certFile, keyFile }: Listener): void {
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key);
}

const waitFor = (holds: () => Promise<boolean>): Promise<void> =>
  until(holds, 'the server is ready', startTimeout);
