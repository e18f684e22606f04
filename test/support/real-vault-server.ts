import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import type { FailingVault } from './failing-vaults.ts';
import { freePort } from './faulty-gateway.ts';
import { Folder } from './folder.ts';
import { VaultAdmin } from './stub-vault/admin.ts';
import type { Ca } from './stub-vault/certificates.ts';
import { until } from './until.ts';

const initialized = z.object({ root_token: z.string(), keys: z.tuple([z.string()]) });
/** Mounts whose rate can be limited. */
const limited = ['secret', 'transit'];

export async function startRealVault(program: string, ca: Ca): Promise<FailingVault> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const server = new RealVault(program, ca, port, adminPort);
  await server.initialize();
  return server;
}

/** A server of `vault` or `bao`, with its storage in a directory: TLS for Countersign, and another port for its administrator. */
class RealVault implements FailingVault {
  readonly address: string;
  readonly caFile: string;
  readonly failures: FailingVault['failures'] = {
    killed: { begin: () => this.#kill(), end: () => this.#restart() },
    hung: {
      begin: async () => this.#child?.kill('SIGSTOP'),
      end: async () => this.#child?.kill('SIGCONT'),
    },
    sealed: { begin: () => this.admin.request('PUT', 'sys/seal'), end: () => this.#unseal() },
    'rate-limited': {
      begin: () => Promise.all(limited.map((mount) => this.#limitRate(mount))),
      end: () =>
        Promise.all(limited.map((mount) => this.admin.request('DELETE', `sys/quotas/rate-limit/${mount}`))),
    },
  };
  readonly #program: string;
  readonly #folder = new Folder();
  readonly #config: string;
  #child: ChildProcess | undefined;
  #unsealKey = '';
  #printed = '';
  admin: VaultAdmin;

  constructor(program: string, ca: Ca, port: number, adminPort: number) {
    this.#program = program;
    this.address = `https://127.0.0.1:${port}`;
    this.caFile = ca.file;
    this.admin = new VaultAdmin(`http://127.0.0.1:${adminPort}`, '');
    const { certFile, keyFile } = ca.issue('vault');
    const secure = { address: `127.0.0.1:${port}`, tls_cert_file: certFile, tls_key_file: keyFile };
    const plain = { address: `127.0.0.1:${adminPort}`, tls_disable: true };
    const settings = {
      storage: { file: { path: this.#folder.at('storage') } },
      listener: [plain, secure].map((tcp) => ({ tcp })),
      api_addr: this.admin.address,
      disable_mlock: true,
      telemetry: { prometheus_retention_time: '1h', disable_hostname: true },
    };
    this.#config = this.#folder.file('server.json', JSON.stringify(settings));
  }

  async initialize(): Promise<void> {
    await this.#run();
    const { text } = await this.admin.send('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 });
    const { root_token, keys } = initialized.parse(JSON.parse(text));
    this.admin = new VaultAdmin(this.admin.address, root_token);
    this.#unsealKey = keys[0];
    await this.#unseal();
    await this.admin.enable('mounts', 'secret', { type: 'kv', options: { version: '2' } });
    await this.#untilStatus('secret/config', 200);
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
    await this.#kill();
    this.#folder.remove();
  }

  async #run(): Promise<void> {
    const child = spawn(this.#program, ['server', `-config=${this.#config}`]);
    for (const output of [child.stdout, child.stderr])
      output.on('data', (chunk) => (this.#printed += String(chunk)));
    this.#child = child;
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`the server ended:\n${this.#printed}`);
      return (await this.admin.send('GET', 'sys/health').catch(() => undefined)) !== undefined;
    }, 'the server responds');
  }

  async #restart(): Promise<void> {
    await this.#run();
    await this.#unseal();
  }

  async #kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  async #unseal(): Promise<void> {
    await this.admin.send('PUT', 'sys/unseal', { key: this.#unsealKey });
    await this.#untilStatus('sys/health', 200);
  }

  async #limitRate(mount: string): Promise<void> {
    // Long enough that nothing gets through during the outage.
    const quota = { path: `${mount}/`, rate: 1, interval: '60s' };
    await this.admin.request('POST', `sys/quotas/rate-limit/${mount}`, quota);
    await this.#untilStatus(`${mount}/any/any`, 429);
  }

  async #untilStatus(path: string, status: number): Promise<void> {
    await until(async () => (await this.admin.send('GET', path)).status === status, `${path}: ${status}`);
  }
}
