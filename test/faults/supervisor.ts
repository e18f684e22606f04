import { setTimeout as wait } from 'node:timers/promises';
import { increment } from '../support/command.ts';
import { Random } from '../support/random.ts';
import { RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';
import type { Instance } from './instance.ts';

/** A restart costs a second of both cores. */
const signals = [
  ...(['SIGHUP', 'SIGTERM', 'SIGKILL'] as const),
  ...(['SIGHUP', 'SIGTERM', 'SIGHUP', 'SIGHUP', 'SIGTERM', 'SIGKILL', 'SIGHUP'] as const),
];

/** Sends signals and hostile callers at random moments, and restarts ended processes, until it is stopped. */
export class Supervisor {
  /** How often it did what. */
  readonly actions = new Map<string, number>();
  readonly #instances: readonly Instance[];
  readonly #seed: number;
  readonly #attacks: Promise<void>[] = [];
  readonly #loops: Promise<void>[];
  #stopping = false;

  constructor(instances: readonly Instance[], seed: number) {
    this.#instances = instances;
    this.#seed = seed;
    this.#loops = [this.#restart(), this.#signal(), this.#attack()];
  }

  get #up(): readonly Instance[] {
    return this.#instances.filter(({ state }) => state === 'up');
  }

  /** Waits for an instance that is up. */
  async choose(random: Random): Promise<Instance> {
    await until(() => this.#up.length > 0, 'an instance is up', 30);
    return random.pick(this.#up);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all([...this.#loops, ...this.#attacks]);
  }

  async #restart(): Promise<void> {
    for (; !this.#stopping; await wait(20)) {
      const down = this.#instances.filter(({ state }) => state === 'down');
      await Promise.all(down.map((instance) => instance.start()));
    }
  }

  async #signal(): Promise<void> {
    const random = new Random(this.#seed, 'signals');
    for (let sent = 0; !this.#stopping; ) {
      await wait(sent < 3 ? random.int(200, 600) : random.int(300, 2_500));
      const name = signals[sent % signals.length] ?? 'SIGHUP';
      // One always accepts requests.
      if (this.#stopping || this.#up.length < 2) continue;
      const instance = random.pick(this.#up);
      increment(this.actions, name);
      if (name === 'SIGTERM') void instance.stop();
      else instance.signal(name);
      sent += 1;
    }
  }

  async #attack(): Promise<void> {
    const random = new Random(this.#seed, 'hostile');
    while (!this.#stopping) {
      await wait(random.int(20, 400));
      if (this.#up.length === 0) continue;
      const { url, adminUrl } = random.pick(this.#up);
      increment(this.actions, 'hostile caller');
      this.#attacks.push(attack([url, url, url, adminUrl], random));
    }
  }
}

/** Milliseconds between two readiness checks of a load balancer, as in Kubernetes. */
const checkEvery = 500;

/** A rollout: restarts one instance after the other, while a balancer opens connections to those that it knows to be ready. */
export class Rollout {
  /** Resolves when all restarts are over. */
  readonly over: Promise<void>;
  readonly #instances: readonly Instance[];
  readonly #timer: NodeJS.Timeout;
  #ready: readonly Instance[];

  constructor(instances: readonly Instance[], restarts: number) {
    this.#instances = instances;
    this.#ready = instances;
    this.#timer = setInterval(() => void this.#look(), checkEvery);
    this.over = this.#restart(restarts);
  }

  async choose(random: Random): Promise<Instance> {
    return random.pick(this.#ready.length > 0 ? this.#ready : this.#instances);
  }

  async #look(): Promise<void> {
    const ready = await Promise.all(this.#instances.map((instance) => instance.isReady()));
    this.#ready = this.#instances.filter((_, index) => ready[index]);
  }

  /** The next instance only after this one has come back. */
  async #restart(restarts: number): Promise<void> {
    for (let count = 0; count < restarts; count += 1) {
      const instance = this.#instances[count % this.#instances.length]!;
      await instance.stop();
      await instance.start();
      await until(() => this.#ready.includes(instance), 'the balancer knows it', 30);
      await wait(checkEvery);
    }
    clearInterval(this.#timer);
  }
}

const connectRequest = 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n';
const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const upgrade = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

/** What malicious clients send: nothing that may reach the gateway. */
const texts: readonly ((random: Random) => string | Buffer)[] = [
  () => connectRequest,
  () => get + connectRequest,
  () => upgrade,
  (random) => get.repeat(random.int(20, 200)),
  () => 'POST /plain/gw/api/v4/transfer/1 HTTP/1.1\r\nHost: x\r\n',
  (random) => random.bytes(random.int(1, 300)),
];

/** Resolves when the connection, to the proxy or to the admin port, is over. */
async function attack(urls: readonly string[], random: Random): Promise<void> {
  // The instance may be down just now.
  const connection = await RawConnection.open(random.pick(urls)).catch(() => undefined);
  if (connection === undefined) return;
  connection.send(random.pick(texts)(random));
  const how = random.pick(['reset', 'unread', 'held'] as const);
  if (how === 'held') await connection.received(Number.POSITIVE_INFINITY, 15_000);
  else {
    // With unread data, the system resets a connection that is closed.
    if (how === 'unread') connection.pause();
    await wait(random.int(0, 20));
  }
  if (how === 'reset') connection.reset();
  else connection.close();
}
