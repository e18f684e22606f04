import { AsyncLocalStorage } from 'node:async_hooks';
import { type Config, configShape } from '../../src/config/shape.ts';
import { Refusal } from '../../src/errors.ts';
import type { Exchange } from '../../src/exchange.ts';
import { createResolver } from '../../src/gateway/resolve.ts';
import { KeyCache } from '../../src/keys/cached.ts';
import type { KeyAddress, KeyRing, KeySource } from '../../src/keys/source.ts';
import type { KeyKind, SigningKey } from '../../src/oauth1/methods.ts';
import type { Signed, Unsigned } from '../../src/oauth1/sign.ts';
import type { Meter } from '../../src/ops/meter.ts';
import { CrossingFailure, type GatewayReply, type Post } from '../../src/proxy/crossing.ts';
import type { Passage } from '../../src/proxy/forward.ts';
import { unlimitedMemory } from '../../src/proxy/memory-budget.ts';
import { Rotation } from '../../src/proxy/rotation.ts';
import { Sender } from '../../src/proxy/send.ts';
import { Signer } from '../../src/proxy/signer.ts';
import { type CanaryPorts, kindOf, ObservedCanaries } from './canaries.ts';
import type { Random } from './random.ts';
import { type OperationName, operationNames, targets } from './schedule.ts';
import { epoch, type VirtualTime } from './virtual-time.ts';
import { nameOf, type Vault } from './world.ts';

const overlap = 86_400_000;
const address: KeyAddress = { environment: 'sandbox', login: 'acme' };
const config: Config = configShape.parse({
  environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw', canaryEndpoint: '1234' } },
  keys: { source: 'directory', directory: '/nowhere' },
});
const resolve = createResolver(config);

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
  /** `keys.cache.fresh`, milliseconds. */
  readonly fresh: number;
  readonly random: Random;
  readonly vault: Vault;
  /** `undefined`: no response within the timeout. */
  readonly forward: (upstream: Upstream) => Promise<GatewayReply | undefined>;
  /** Whether `keys.rotation.canary` is set, and what observes the canaries. */
  readonly canary: CanaryPorts | undefined;
  readonly ringChanged: (ring: KeyRing | undefined) => void;
  /** The ring is read past the cache, because of a request that needs this kind of key. */
  readonly reread: (kind: KeyKind) => void;
}

/** How a caller's request ended: a status of the gateway, or the reason of a Refusal. */
export type End = number | string;

/** The parts of Countersign that choose, cache, repeat and back off, as they are, on virtual time. */
export class Instance {
  readonly #ports: InstancePorts;
  readonly #rotation: Rotation;
  /** Of the key that the request needs which is handled. */
  readonly #kind = new AsyncLocalStorage<KeyKind>();
  #sender: Sender;
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
    const exchange: Exchange = {
      id: String(id),
      startedAt: 0,
      outcome: 'not-sent',
      attempts: 0,
      durations: {},
    };
    const form = [['id', String(id)]] as const;
    const errand = {
      exchange,
      destination: resolve(targets[operation]),
      login: address.login,
      form,
      memory: unlimitedMemory().reservation(),
    };
    try {
      return await this.#kind.run(kindOf(errand), async () => (await this.#sender.send(errand)).status);
    } catch (error) {
      if (error instanceof Refusal) return error.reason;
      throw error;
    }
  }

  #newRotation(): Rotation {
    const { time, fresh, random, vault, ringChanged, reread } = this.#ports;
    const monotonic = (): number => time.now;
    const source: KeySource = {
      read: (login) => vault.read(login),
      start: () => {},
      ready: () => true,
      stop: () => {},
    };
    const events = { ...meter, ringChanged: (_login: KeyAddress, ring?: KeyRing) => ringChanged(ring) };
    const cache = new KeyCache(
      source,
      { ...config.keys.cache, fresh },
      {
        monotonic,
        random: random.next,
        events,
        sourceName: 'model',
        setTimer: (run, milliseconds) => time.timer(run, milliseconds),
      },
    );
    const keys = {
      take: (login: KeyAddress) => cache.take(login),
      reread: (login: KeyAddress) => {
        reread(this.#kind.getStore() ?? 'control_key');
        return cache.reread(login);
      },
    };
    const wait = (milliseconds: number): Promise<void> => time.wait(milliseconds);
    return new Rotation({ keys, meter, clock: () => epoch + time.now, monotonic, wait, overlap });
  }

  #newSender(): Sender {
    const { time, random, forward, canary } = this.#ports;
    const send = async (post: Post, { exchange: timeout, onConnected }: Passage): Promise<GatewayReply> => {
      onConnected?.();
      const reply = await forward(upstreamOf(post, timeout));
      if (reply === undefined) throw new CrossingFailure('gateway-timeout', true, false);
      return reply;
    };
    this.#configurations += 1;
    const configuration = this.#configurations;
    const began = (kind: KeyKind): number => canary?.began(kind, configuration) ?? 0;
    return new Sender({
      ...(canary === undefined
        ? {}
        : { canaries: new ObservedCanaries(config, { ...canary, began }, this.#rotation, time) }),
      rotation: this.#rotation,
      signer: new SlowSigner(time, random),
      forwarders: new Map([['sandbox', { send, retire: () => {} }]]),
      meter,
      clock: () => epoch + time.now,
      monotonic: () => time.now,
      nonce: () => '',
      random: random.next,
      userAgent: 'model',
    });
  }
}

/** Signs with the name of the key; RSA takes a while. */
class SlowSigner extends Signer {
  readonly #time: VirtualTime;
  readonly #random: Random;

  constructor(time: VirtualTime, random: Random) {
    super({ concurrency: 1, queue: 1 }, meter, () => time.now);
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

function upstreamOf({ headers, body }: Post, timeout: number): Upstream {
  const [key = '', path] = (headers['Authorization'] ?? '').split(' ');
  const operation = operationNames.find((name) => targets[name] === `/sandbox${path}`);
  if (operation === undefined) throw new TypeError('an unknown target');
  return { request: Number(body.toString()), operation, key, timeout };
}

const none = (): void => {};
const meter: Meter = {
  logLineSuppressed: none,
  logLinesDropped: none,
  gatewayUnreachable: none,
  certificateLoaded: none,
  certificateGone: none,
  loginFailed: none,
  connectionDropped: none,
  exchangeBegan: none,
  exchangeLeft: none,
  exchangeEnded: none,
  gatewayReplied: none,
  signed: none,
  signingQueue: none,
  fellBack: none,
  canarySent: none,
  policyDecided: none,
  configLoaded: none,
  keyTaken: none,
  keyFetched: none,
  ringChanged: none,
  keySourceUp: none,
  sourceTokenExpires: none,
  keyProblem: none,
};
