import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { freePort } from './faulty-gateway.ts';
import { findProgram } from './find-program.ts';
import { Folder } from './folder.ts';
import { at, record } from './helm.ts';
import { Ca } from './stub-vault/certificates.ts';
import { until } from './until.ts';

export interface Created {
  readonly status: number;
  /** Of admission and of deprecated fields. */
  readonly warnings: string | undefined;
  readonly body: unknown;
}

/** The program that KUBE_APISERVER_BIN names, if etcd is installed too. */
export const apiServerProgram =
  findProgram('etcd') === undefined ? undefined : process.env['KUBE_APISERVER_BIN'];

/**
 * A kube-apiserver with its etcd: objects, admission and tokens are real. There is no kubelet, so no pod runs, and no
 * controller, so a Deployment makes no pods, and a namespace gets neither a service account nor the CA.
 */
export class RealKubernetesApi {
  readonly issuer = 'https://kubernetes.default.svc.cluster.local';
  readonly #folder = new Folder();
  readonly #adminToken = randomUUID();
  readonly #processes: ChildProcess[] = [];
  #ca: Ca | undefined;
  #port = 0;

  get address(): string {
    return `https://127.0.0.1:${this.#port}`;
  }

  get caFile(): string {
    return this.#ca?.file ?? '';
  }

  /** For helm. */
  get kubeconfig(): string {
    const cluster = { server: this.address, 'certificate-authority': this.caFile };
    const config = {
      'current-context': 'test',
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
      clusters: [{ name: 'test', cluster }],
      users: [{ name: 'admin', user: { token: this.#adminToken } }],
    };
    return this.#folder.file('kubeconfig', JSON.stringify(config));
  }

  /** @param program {@link apiServerProgram} */
  async start(program: string): Promise<void> {
    const folder = this.#folder;
    const client = `http://127.0.0.1:${await freePort()}`;
    const peer = `http://127.0.0.1:${await freePort()}`;
    this.#port = await freePort();
    this.#ca = new Ca(folder.path, 'cluster-ca');
    const { certFile, keyFile } = this.#ca.issue('kube-apiserver');
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const signingKey = folder.file('sa.key', privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const accounts = folder.file('sa.pub', publicKey.export({ type: 'spki', format: 'pem' }));
    const admins = folder.file('admins.csv', `${this.#adminToken},admin,admin,system:masters\n`);
    this.#run('etcd', {
      'data-dir': folder.at('etcd'),
      'listen-client-urls': client,
      'advertise-client-urls': client,
      'listen-peer-urls': peer,
      'initial-advertise-peer-urls': peer,
      'initial-cluster': `default=${peer}`,
    });
    this.#run(program, {
      'etcd-servers': client,
      'secure-port': String(this.#port),
      'bind-address': '127.0.0.1',
      'cert-dir': folder.at('certificates'),
      'tls-cert-file': certFile,
      'tls-private-key-file': keyFile,
      'token-auth-file': admins,
      'service-account-issuer': this.issuer,
      'service-account-key-file': accounts,
      'service-account-signing-key-file': signingKey,
      'service-cluster-ip-range': '10.96.0.0/16',
      'authorization-mode': 'RBAC',
      'endpoint-reconciler-type': 'none',
    });
    const isReady = () =>
      this.send('GET', '/readyz').then(
        ({ status }) => status === 200,
        () => false,
      );
    await until(isReady, 'the API server is ready', 60);
  }

  #run(program: string, options: Readonly<Record<string, string>>): void {
    const log = openSync(this.#folder.at(`${this.#processes.length}.log`), 'w');
    const args = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
    this.#processes.push(spawn(program, args, { stdio: ['ignore', log, log] }));
  }

  async send(method: string, path: string, body?: object): Promise<Created> {
    const request = tlsRequest(`${this.address}${path}`, {
      method,
      ca: this.#ca?.cert,
      agent: false,
      headers: { Authorization: `Bearer ${this.#adminToken}`, 'Content-Type': 'application/json' },
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve).once('error', reject);
    });
    const content = await text(response);
    const isJson = response.headers['content-type'] === 'application/json';
    return {
      status: response.statusCode ?? 0,
      warnings: response.headers['warning'],
      body: isJson ? JSON.parse(content) : content,
    };
  }

  /** @param object as in a manifest, of a kind whose plural ends in s */
  async create(object: unknown, namespace?: string): Promise<Created> {
    const version = String(at(object, 'apiVersion'));
    const group = version === 'v1' ? '/api/v1' : `/apis/${version}`;
    const scope = namespace === undefined ? '' : `/namespaces/${namespace}`;
    return this.send('POST', `${group}${scope}/${String(at(object, 'kind')).toLowerCase()}s`, record(object));
  }

  /** The pod that the controllers would make of a Deployment. */
  async createPodOf(deployment: unknown, namespace: string, name: string): Promise<Created> {
    const { metadata, spec } = record(deployment, 'spec', 'template');
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...record(metadata), name }, spec };
    return this.create(pod, namespace);
  }

  /** A namespace in which the "restricted" Pod Security Standard is enforced, with the service account of each one. */
  async createNamespace(name: string): Promise<void> {
    const labels = Object.fromEntries(
      ['enforce', 'warn'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted']),
    );
    await this.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
    await this.createAccount(name, 'default');
  }

  async createAccount(namespace: string, name: string): Promise<void> {
    await this.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } }, namespace);
  }

  /** By TokenRequest, as the kubelet does. @param audience of the API itself unless given */
  async token(namespace: string, account: string, audience?: string): Promise<string> {
    const spec = audience === undefined ? {} : { audiences: [audience] };
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    const { body } = await this.send('POST', path, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec,
    });
    return String(at(body, 'status', 'token'));
  }

  async close(): Promise<void> {
    for (const child of this.#processes.toReversed()) {
      if (child.exitCode !== null) continue;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    this.#folder.remove();
  }
}
