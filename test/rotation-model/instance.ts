import { AsyncLocalStorage } from 'node:async_hooks';
import { type Config, configSchema } from '../../src/config/schema.ts';
import { ProxyError } from '../../src/errors.ts';
import { createRoutes } from '../../src/gateway/router.ts';
import { KeyCache } from '../../src/keys/key-cache.ts';
import { KeySelector } from '../../src/keys/key-selector.ts';
import type { KeySource } from '../../src/keys/key-source.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import type { KeyRing, UsableKey } from '../../src/keys/ring.ts';
import { identityOf, readRing } from '../../src/keys/vault/read-ring.ts';
import type { KeyKind } from '../../src/oauth1/methods.ts';
import type { Signed, Unsigned } from '../../src/oauth1/sign.ts';
import type { EventObserver } from '../../src/observability/events.ts';
import { ConcurrencyLimiter, unlimitedMemory } from '../../src/proxy/limits.ts';
import { Forwarder } from '../../src/proxy/outbound/forwarder.ts';
import type { SendOptions } from '../../src/proxy/outbound/upstream-client.ts';
import { UpstreamError } from '../../src/proxy/outbound/upstream-error.ts';
import type { GatewayResponse, SignedHttpRequest } from '../../src/proxy/outbound/upstream-request.ts';
import { SigningPool } from '../../src/proxy/signing-pool.ts';
import type { Random } from '../support/random.ts';
import { kindOf } from './canaries.ts';
import { type OperationName, operationNames, targets } from './schedule.ts';
import { epoch, type VirtualTime } from './virtual-time.ts';
import { nameOf, type Vault } from './world.ts';

const rotationGracePeriod = 86_400_000;
const environment = 'sandbox';

const sandbox = { baseUrl: 'https://gateway.example', product: 'gw' };
const keys = { source: 'directory', directory: '/nowhere' };

interface Configured {
  readonly config: Config;
  readonly routes: ReturnType<typeof createRoutes>;
}

/** By `maxInFlight`, since parsing takes longer than a short schedule. */
const configured = new Map<number, Configured>();

function configuredWith(maxInFlight: number): Configured {
  const known = configured.get(maxInFlight);
  if (known !== undefined) return known;
  const environments = { [environment]: { ...sandbox, maxInFlight } };
  const config = configSchema.parse({ environments, keys });
  const fresh = { config, routes: createRoutes(config) };
  configured.set(maxInFlight, fresh);
  return fresh;
}

/**
 * Kind of key of the current request. One for all instances: Node copies every storage that was ever used at each change
 * of one.
 */
const currentKind = new AsyncLocalStorage<KeyKind>();

/** An upstream request. */
export interface Upstream {
  /** Id of the caller's request, or of the canary. */
  readonly request: number;
  readonly operation: OperationName;
  readonly key: string;
  /** Milliseconds until the instance stops waiting for the response. */
  readonly timeout: number;
}

export interface InstanceOptions {
  readonly time: VirtualTime;
  /** `keys.cache.ttl`, milliseconds. */
  readonly fresh: number;
  readonly random: Random;
  /** By login. */
  readonly vaults: ReadonlyMap<string, Vault>;
  /** `environments.*.maxInFlight` */
  readonly maxInFlight: number;
  /** `undefined`: no response within the timeout. */
  readonly forward: (upstream: Upstream) => Promise<GatewayResponse | undefined>;
  readonly ringChanged: (login: string, ring: KeyRing | undefined) => void;
  /** The ring is refreshed past the cache because of a request that needs this kind of key. */
  readonly refresh: (login: string, kind: KeyKind) => void;
  /** Whether the last read succeeded. */
  readonly sourceReported: (up: boolean) => void;
  /** The source is back, or the configuration was reloaded: each step begins anew. */
  readonly lookedAgain: () => void;
}

/** How a caller's request ended: the gateway's status, or the reason of a ProxyError. */
export type End = number | string;

/** The real cache, key selector and forwarder, on virtual time. */
export class Instance {
  readonly #options: InstanceOptions;
  readonly #config: Config;
  readonly #routes: Configured['routes'];
  readonly #keySelector: KeySelector;
  readonly #limiter = new ConcurrencyLimiter();
  #forwarder: Forwarder;

  constructor(options: InstanceOptions) {
    this.#options = options;
    const { config, routes } = configuredWith(options.maxInFlight);
    this.#config = config;
    this.#routes = routes;
    this.#keySelector = this.#newKeySelector();
    this.#forwarder = this.#newForwarder();
  }

  /** Reloads the configuration. The cached keys and their history are kept. */
  reload(): void {
    this.#lookAgain();
    this.#forwarder = this.#newForwarder();
  }

  async send(id: number, login: string, operation: OperationName): Promise<End> {
    const form = [['id', String(id)]] as const;
    const request = {
      record: { id: String(id), startedAt: 0, attempts: 0, durations: {} },
      destination: this.#routes.resolve(targets[operation]),
      login,
      form,
      memory: unlimitedMemory(),
    };
    try {
      const release = this.#limiter.acquireForEnvironment(environment, this.#options.maxInFlight);
      const send = (): Promise<GatewayResponse> => this.#forwarder.send(request).finally(release);
      return (await currentKind.run(kindOf(request), send)).status;
    } catch (error) {
      if (error instanceof ProxyError) return error.reason;
      throw error;
    }
  }

  #lookAgain(): void {
    this.#options.lookedAgain();
    this.#keySelector.lookAgain();
  }

  #newKeySelector(): KeySelector {
    const { time, fresh, random, vaults, ringChanged, sourceReported, refresh } = this.#options;
    const monotonic = (): number => time.now;
    const vaultOf = ({ login }: LoginRef): Vault => {
      const vault = vaults.get(login);
      if (vault === undefined) throw new TypeError(`no login ${login}`);
      return vault;
    };
    const source: KeySource = {
      read: (login, known = [], isSearch = false) =>
        vaultOf(login).read(login, (readVersion) => {
          const gracePeriodBegan = epoch + time.now - rotationGracePeriod;
          return readRing(readVersion, { gracePeriodBegan, known, isSearch });
        }),
      async readCurrent(login) {
        const current = await vaultOf(login).read(login, (readVersion) => readVersion());
        return current === undefined ? 'not-found' : identityOf(current);
      },
      start: () => {},
      ready: () => true,
      stop: () => {},
    };
    const events = {
      ...metricsObserver,
      keyRingUpdated: ({ login }: LoginRef, ring?: KeyRing) => ringChanged(login, ring),
      keySourceUp: sourceReported,
    };
    const cache = new KeyCache(
      source,
      { ...this.#config.keys.cache, ttl: fresh },
      {
        monotonic,
        random: () => random.next(),
        events,
        sourceName: 'model',
        recovered: () => this.#lookAgain(),
        setTimer: (run, milliseconds) => time.timer(run, milliseconds),
      },
    );
    const keys = {
      get: (login: LoginRef, deadline?: number, kind?: KeyKind) => cache.get(login, deadline, kind),
      cached: (login: LoginRef) => cache.cached(login),
      isFailing: () => cache.isFailing(),
      keep: (login: LoginRef, key: UsableKey) => cache.keep(login, key),
      look: (login: LoginRef) => {
        refresh(login.login, currentKind.getStore() ?? 'control_key');
        return cache.look(login);
      },
    };
    return new KeySelector({
      keys,
      metrics: metricsObserver,
      clock: () => epoch + time.now,
      monotonic,
      setTimer: (run, milliseconds) => time.timer(run, milliseconds),
      rotationGracePeriod,
    });
  }

  #newForwarder(): Forwarder {
    const { time, random, forward } = this.#options;
    const send = async (
      post: SignedHttpRequest,
      { total: timeout, onConnected }: SendOptions,
    ): Promise<GatewayResponse> => {
      onConnected?.();
      const response = await forward(upstreamOf(post, timeout));
      if (response === undefined) throw new UpstreamError('gateway-timeout', true, false);
      return response;
    };
    return new Forwarder({
      keySelector: this.#keySelector,
      signer: new SlowSigner(time, random),
      upstreams: new Map([['sandbox', { send, drain: () => {} }]]),
      metrics: metricsObserver,
      clock: () => epoch + time.now,
      monotonic: () => time.now,
      nonce: () => '',
      random: () => random.next(),
      userAgent: 'model',
    });
  }
}

/** "Signs" with the name of the key. RSA takes some time. */
class SlowSigner extends SigningPool {
  readonly #time: VirtualTime;
  readonly #random: Random;

  constructor(time: VirtualTime, random: Random) {
    super({ concurrency: 1, maxQueue: 1 }, metricsObserver, () => time.now);
    this.#time = time;
    this.#random = random;
  }

  override async sign(request: Unsigned, key: UsableKey['key']): Promise<Signed> {
    if (key.kind === 'private_key') await this.#time.wait(this.#random.int(0, 20));
    const [[, id] = ['', '']] = request.form;
    const path = request.url.pathname;
    return { authorization: `${nameOf(key)} ${path}`, body: id };
  }
}

function upstreamOf({ headers, body }: SignedHttpRequest, timeout: number): Upstream {
  const [key = '', path] = (headers['Authorization'] ?? '').split(' ');
  const operation = operationNames.find((name) => folderOf(targets[name]) === folderOf(`/sandbox${path}`));
  if (operation === undefined) throw new TypeError('an unknown target');
  return { request: Number(body), operation, key, timeout };
}

/** Without the last segment, which may be the login. */
function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

const none = (): void => {};
const metricsObserver: EventObserver = {
  logLineSuppressed: none,
  spansCounted: none,
  gatewayUnreachable: none,
  loginsNotFound: none,
  tlsConnected: none,
  tlsFailed: none,
  loginFailed: none,
  connectionRejected: none,
  requestFinished: none,
  gatewayResponded: none,
  signed: none,
  signingQueueChanged: none,
  keyFallback: none,
  transitSigned: none,
  authorizationDecided: none,
  jwtVerified: none,
  auditRecordsWritten: none,
  auditRecordsLost: none,
  auditRecordsOmitted: none,
  auditUp: none,
  configLoaded: none,
  keyLookup: none,
  keyFetched: none,
  keyRingUpdated: none,
  keySourceReplaced: none,
  keySourceUp: none,
  loginsDenied: none,
  cachedKeysExpire: none,
  tokenExpiryChanged: none,
  keyProblem: none,
};
