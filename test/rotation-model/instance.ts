import { AsyncLocalStorage } from 'node:async_hooks';
import { type Config, configSchema } from '../../src/config/schema.ts';
import { ProxyError } from '../../src/errors.ts';
import { createRouter } from '../../src/gateway/router.ts';
import { KeyCache } from '../../src/keys/key-cache.ts';
import { KeySelector } from '../../src/keys/key-selector.ts';
import type { KeyRing, KeySource, LoginRef } from '../../src/keys/key-source.ts';
import type { KeyKind, SigningKey } from '../../src/oauth1/methods.ts';
import type { Signed, Unsigned } from '../../src/oauth1/sign.ts';
import type { MetricsObserver } from '../../src/observability/metrics-observer.ts';
import { unlimitedMemory } from '../../src/proxy/memory-budget.ts';
import { Forwarder } from '../../src/proxy/outbound/forwarder.ts';
import type { SendOptions } from '../../src/proxy/outbound/upstream-client.ts';
import {
  type GatewayResponse,
  type SignedHttpRequest,
  UpstreamError,
} from '../../src/proxy/outbound/upstream-request.ts';
import { SigningPool } from '../../src/proxy/signing-pool.ts';
import { createUpstreamRecord } from '../../src/request-context.ts';
import { type CanaryPorts, kindOf, ObservedCanaries } from './canaries.ts';
import type { Random } from './random.ts';
import { type OperationName, operationNames, targets } from './schedule.ts';
import { epoch, type VirtualTime } from './virtual-time.ts';
import { nameOf, type Vault } from './world.ts';

const overlap = 86_400_000;
const address: LoginRef = { environment: 'sandbox', login: 'acme' };
const config: Config = configSchema.parse({
  environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw', canaryEndpoint: '1234' } },
  keys: { source: 'directory', directory: '/nowhere' },
});
const resolve = createRouter(config);

/** An upstream request. */
export interface Upstream {
  /** Of the caller's request, or of the canary. */
  readonly request: number;
  readonly operation: OperationName;
  readonly key: string;
  /** Milliseconds until the instance stops waiting for the response. */
  readonly timeout: number;
}

export interface InstancePorts {
  readonly time: VirtualTime;
  /** `keys.cache.ttl`, milliseconds. */
  readonly fresh: number;
  readonly random: Random;
  readonly vault: Vault;
  /** `undefined`: no response within the timeout. */
  readonly forward: (upstream: Upstream) => Promise<GatewayResponse | undefined>;
  /** Whether `keys.rotation.canary` is set, and what observes the canaries. */
  readonly canary: CanaryPorts | undefined;
  readonly ringChanged: (ring: KeyRing | undefined) => void;
  /** The ring is read past the cache, because of a request that needs this kind of key. */
  readonly refresh: (kind: KeyKind) => void;
}

/** How a caller's request ended: a status of the gateway, or the reason of a Refusal. */
export type End = number | string;

/** The parts of Countersign that choose, cache, repeat and back off, as they are, on virtual time. */
export class Instance {
  readonly #ports: InstancePorts;
  readonly #rotation: KeySelector;
  /** Of the key that the request needs which is handled. */
  readonly #kind = new AsyncLocalStorage<KeyKind>();
  #sender: Forwarder;
  #configurations = 0;

  constructor(ports: InstancePorts) {
    this.#ports = ports;
    this.#rotation = this.#newRotation();
    this.#sender = this.#newSender();
  }

  /** A configuration with the same keys: the keys and what is known of them are kept. */
  reload(): void {
    this.#sender = this.#newSender();
  }

  async send(id: number, operation: OperationName): Promise<End> {
    const form = [['id', String(id)]] as const;
    const errand = {
      record: createUpstreamRecord(),
      destination: resolve(targets[operation]),
      login: address.login,
      form,
      memory: unlimitedMemory().reservation(),
    };
    try {
      return await this.#kind.run(kindOf(errand), async () => (await this.#sender.send(errand)).status);
    } catch (error) {
      if (error instanceof ProxyError) return error.reason;
      throw error;
    }
  }

  #newRotation(): KeySelector {
    const { time, fresh, random, vault, ringChanged, refresh } = this.#ports;
    const monotonic = (): number => time.now;
    const source: KeySource = {
      read: (login) => vault.read(login),
      start: () => {},
      ready: () => true,
      stop: () => {},
    };
    const events = { ...meter, keyRingUpdated: (_login: LoginRef, ring?: KeyRing) => ringChanged(ring) };
    const cache = new KeyCache(
      source,
      { ...config.keys.cache, ttl: fresh },
      {
        monotonic,
        random: random.next,
        events,
        sourceName: 'model',
        setTimer: (run, milliseconds) => time.timer(run, milliseconds),
      },
    );
    const keys = {
      get: (login: LoginRef) => cache.get(login),
      refresh: (login: LoginRef) => {
        refresh(this.#kind.getStore() ?? 'control_key');
        return cache.refresh(login);
      },
    };
    const wait = (milliseconds: number): Promise<void> => time.wait(milliseconds);
    return new KeySelector({
      keys,
      meter,
      clock: () => epoch + time.now,
      monotonic,
      wait,
      rotationGracePeriod: overlap,
    });
  }

  #newSender(): Forwarder {
    const { time, random, forward, canary } = this.#ports;
    const send = async (
      post: SignedHttpRequest,
      { total: timeout, onConnected }: SendOptions,
    ): Promise<GatewayResponse> => {
      onConnected?.();
      const reply = await forward(upstreamOf(post, timeout));
      if (reply === undefined) throw new UpstreamError('gateway-timeout', true, false);
      return reply;
    };
    this.#configurations += 1;
    const configuration = this.#configurations;
    const began = (kind: KeyKind): number => canary?.began(kind, configuration) ?? 0;
    return new Forwarder({
      ...(canary === undefined
        ? {}
        : { canaries: new ObservedCanaries(config, { ...canary, began }, this.#rotation, time) }),
      keySelector: this.#rotation,
      signer: new SlowSigner(time, random),
      upstreams: new Map([['sandbox', { send, drain: () => {} }]]),
      metrics: meter,
      clock: () => epoch + time.now,
      monotonic: () => time.now,
      nonce: () => '',
      random: random.next,
      userAgent: 'model',
    });
  }
}

/** Signs with the name of the key; RSA takes a while. */
class SlowSigner extends SigningPool {
  readonly #time: VirtualTime;
  readonly #random: Random;

  constructor(time: VirtualTime, random: Random) {
    super({ concurrency: 1, maxQueue: 1 }, meter, () => time.now);
    this.#time = time;
    this.#random = random;
  }

  override async sign(request: Unsigned, key: SigningKey): Promise<Signed> {
    if (key.kind === 'private_key') await this.#time.wait(this.#random.between(0, 20));
    const [[, id] = ['', '']] = request.form;
    const path = request.url.pathname;
    return { authorization: `${nameOf(key)} ${path}`, body: Buffer.from(id) };
  }
}

function upstreamOf({ headers, body }: SignedHttpRequest, timeout: number): Upstream {
  const [key = '', path] = (headers['Authorization'] ?? '').split(' ');
  const operation = operationNames.find((name) => targets[name] === `/sandbox${path}`);
  if (operation === undefined) throw new TypeError('an unknown target');
  return { request: Number(body.toString()), operation, key, timeout };
}

const none = (): void => {};
const meter: MetricsObserver = {
  logLineSuppressed: none,
  logLinesDropped: none,
  gatewayUnreachable: none,
  certificateLoaded: none,
  certificateRemoved: none,
  loginFailed: none,
  connectionRejected: none,
  upstreamStarted: none,
  upstreamFinished: none,
  requestFinished: none,
  gatewayResponded: none,
  signed: none,
  signingQueueChanged: none,
  keyFallback: none,
  canarySent: none,
  authorizationDecided: none,
  configLoaded: none,
  keyLookup: none,
  keyFetched: none,
  keyRingUpdated: none,
  keySourceUp: none,
  tokenExpiryChanged: none,
  keyProblem: none,
};
