import { Random } from '../support/random.ts';
import { attacker, type Family, rotating, type Schedule, type Stream, type World } from './schedule.ts';
import type { Illness } from './vault.ts';

/** A random schedule: the same for the same seed. Of twenty, thirteen are odd, four ordinary, three hostile. */
export function generate(seed: number, family: Family = familyOf(seed)): Schedule {
  return new Generator(seed, family).schedule();
}

function familyOf(seed: number): Family {
  const turn = seed % 20;
  if (turn < 4) return 'ordinary';
  return turn < 7 ? 'hostile' : 'odd';
}

/** Requests of a stream in one schedule at most. */
const mostRequests = 3_000;

class Generator {
  readonly #seed: number;
  readonly #family: Family;
  readonly #random: Random;
  readonly #events: Schedule['events'][number][] = [];
  readonly #streams: Stream[] = [];
  readonly #nodes: number;
  #length = 0;
  #times: Pick<Schedule, 'ttl' | 'vaultLatency'>;
  #accepted = 'A';
  /** Those that Vault has sooner or later. */
  readonly #keys = ['A'];

  constructor(seed: number, family: Family) {
    this.#seed = seed;
    this.#family = family;
    this.#random = new Random(seed);
    const ttl = this.#random.pick([60_000, 60_000, 5_000]);
    this.#times = { ttl, vaultLatency: this.#random.pick([15, 15, 120]) };
    this.#nodes = this.#isOdd ? this.#random.pick([1, 1, 2, 3]) : 1;
  }

  get #isOdd(): boolean {
    return this.#family === 'odd';
  }

  schedule(): Schedule {
    const random = this.#random;
    let at = random.int(8_000, 23_000);
    for (let count = random.chance(0.2) ? 2 : 1; count > 0; count -= 1)
      at = this.#rotation(at) + random.pick([3_000, 20_000, 60_000]);
    this.#length = at + 30_000;
    for (let count = random.pick([0, 0, 1, 2]); count > 0; count -= 1)
      this.#add(random.int(5_000, this.#length - 10_000), 'restart', (world) => world.restart());
    if (random.chance(0.15)) this.#deletion(random.chance(0.2));
    if (this.#isOdd && random.chance(0.3)) this.#illness();
    this.#traffic();
    if (this.#isOdd && random.chance(0.4)) this.#badEndpoints();
    if (this.#family === 'hostile') this.#hostility();
    return {
      family: this.#family,
      seed: this.#seed,
      length: this.#length,
      ...this.#times,
      kept: random.chance(0.1) ? 1 : 10,
      traits: {
        nodes: this.#nodes,
        refused: this.#oddly(0.12, 0.2),
        unanswered: this.#oddly(0.25, 0.01, 0.1),
        latency: random.pick([5, 20, 60]),
      },
      streams: this.#streams,
      events: this.#events.toSorted((a, b) => a.at - b.at),
    };
  }

  /** @returns its end */
  #rotation(at: number): number {
    const random = this.#random;
    const [old, fresh] = [this.#accepted, String.fromCharCode('A'.charCodeAt(0) + this.#keys.length)];
    this.#keys.push(fresh);
    const pause = random.pick([0, 1_000, 5_000, 20_000, 60_000, 120_000, 300_000, random.int(0, 300_000)]);
    const order = random.pick(['Vault first', 'Vault first', 'gateway first', 'at once', 'overlap']);
    const end = order === 'at once' ? at : at + pause;
    if (order === 'overlap') this.#accept(at, old, fresh);
    this.#write(order === 'gateway first' ? end : at + (order === 'overlap' ? pause / 2 : 0), fresh);
    this.#accept(order === 'gateway first' ? at : end, fresh);
    this.#accepted = fresh;
    return random.chance(0.15) ? this.#rollback(end + random.int(1_000, 40_000), old) : end;
  }

  #rollback(at: number, old: string): number {
    const pause = this.#random.pick([0, 2_000, 20_000]);
    const isGatewayFirst = this.#random.chance(0.5);
    this.#accept(isGatewayFirst ? at : at + pause, old);
    this.#write(isGatewayFirst ? at + pause : at, old);
    this.#accepted = old;
    return at + 20_000;
  }

  /** Of the keys that the gateway does not accept any more; with the one that it accepts, it is a mistake. */
  #deletion(isMistake: boolean): void {
    const at = this.#length - this.#random.pick([20_000, 28_000]);
    for (const key of this.#keys.filter((one) => isMistake || one !== this.#accepted))
      this.#add(at, `Vault: delete ${key}`, ({ vault }) => vault.delete(rotating, key));
  }

  #illness(): void {
    const random = this.#random;
    const illness = random.pick<Illness>(['down', 'hangs', 'denies', 'lost', 'slow']);
    const at = random.int(2_000, this.#length - 25_000);
    this.#add(at, `Vault: ${illness}`, ({ vault }) => vault.fall(illness));
    this.#add(at + random.pick([1_000, 4_000, 20_000]), 'Vault: well', ({ vault }) => vault.recover());
  }

  #traffic(): void {
    const random = this.#random;
    const both = ['query', 'payment'] as const;
    const operations = random.pick<readonly Stream['operation'][]>([both, both, ['payment'], ['query']]);
    const malformed = this.#oddly(0.1, 0.2);
    for (const operation of operations) {
      const unpermitted = operation === 'payment' ? this.#oddly(0.1, 0.05) : 0;
      this.#stream({ caller: 'orders', operation, endpoint: 'main', malformed, unpermitted }, 50);
    }
    if (random.chance(0.3)) this.#stream({ caller: 'refunds', operation: 'payment', endpoint: 'second' }, 5);
  }

  #badEndpoints(): void {
    const random = this.#random;
    for (const endpoint of ['bad1', 'bad2'].slice(random.int(0, 1))) {
      const operation = random.pick(['query', 'payment', 'payment'] as const);
      this.#stream({ caller: random.pick(['orders', 'reports']), operation, endpoint, unpermitted: 1 }, 10);
    }
  }

  /** What a caller can invent: rejected endpoints, logins, forms that the gateway finds wrong; and its own rejected logins. */
  #hostility(): void {
    const caller = attacker;
    const bad = { caller, endpoint: 'bad', unpermitted: 1 };
    const kind = this.#random.pick(['rejections', 'inventions', 'malformed', 'logins']);
    if (kind === 'inventions') {
      this.#times = { ttl: 5_000, vaultLatency: 120 };
      this.#deletion(true);
      this.#stream({ ...bad, operation: 'payment', invents: 'endpoint' }, 10);
      this.#stream({ ...bad, operation: 'query', login: 'invented', invents: 'login' }, 400);
    } else if (kind === 'logins') {
      for (let login = 0; login < 30; login += 1)
        this.#stream({ caller, operation: 'query', endpoint: 'main', login: `${caller}${login}` }, 2);
    } else {
      const malformed = { caller, endpoint: 'main', malformed: 0.5, unpermitted: 0.6 };
      for (const operation of ['query', 'payment'] as const)
        this.#stream({ ...(kind === 'malformed' ? malformed : bad), operation }, 10);
    }
  }

  /** One of the values with this chance, if the schedule is odd; else nothing. */
  #oddly(chance: number, ...values: number[]): number {
    return this.#isOdd && this.#random.chance(chance) ? this.#random.pick(values) : 0;
  }

  /** @param most requests a second */
  #stream(stream: Pick<Stream, 'caller' | 'operation' | 'endpoint'> & Partial<Stream>, most: number): void {
    const isRotating = stream.login === undefined;
    const usual = Math.min(0.1 * (most * 10) ** this.#random.next(), (1_000 * mostRequests) / this.#length);
    const perSecond = isRotating ? usual : most;
    const from = isRotating ? 0 : this.#length - 30_000;
    this.#streams.push({ login: rotating, malformed: 0, unpermitted: 0, ...stream, perSecond, from });
  }

  #write(at: number, key: string): void {
    this.#add(at, `Vault: ${key}`, ({ vault }) => vault.write(rotating, key));
  }

  /** The nodes of one gateway need up to five seconds to agree. */
  #accept(at: number, ...keys: string[]): void {
    const spread = this.#random.pick([0, 0, 1_000, 5_000]);
    for (let node = 0; node < this.#nodes; node += 1) {
      const then = node === 0 ? at : at + spread * this.#random.next();
      const text = `gateway: node ${node} accepts ${keys.join(', ')}`;
      this.#add(then, text, ({ gateway }) => gateway.accept(node, keys));
    }
  }

  #add(at: number, text: string, happen: (world: World) => void): void {
    this.#events.push({ at: Math.round(at), text, happen });
  }
}
