import { Random } from '../support/random.ts';
import {
  attackers,
  type Family,
  rotating,
  type Schedule,
  type Stream,
  type Traits,
  type World,
} from './schedule.ts';
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
/** Milliseconds in which a login is not used, so that it is not read again. */
const idleTime = 660_000;

class Generator {
  readonly #seed: number;
  readonly #family: Family;
  readonly #random: Random;
  readonly #events: Schedule['events'][number][] = [];
  readonly #streams: Stream[] = [];
  readonly #instances: number;
  readonly #nodes: number;
  #length = 0;
  /** When nobody uses the login. */
  #idle: { readonly from: number; readonly to: number } | undefined;
  #times: Pick<Schedule, 'ttl' | 'vaultLatency'>;
  #accepted = 'A';
  /** Those that Vault has sooner or later. */
  readonly #keys = ['A'];

  constructor(seed: number, family: Family) {
    this.#seed = seed;
    this.#family = family;
    this.#random = new Random(seed);
    this.#instances = this.#random.pick([1, 2, 2, 3]);
    const ttl = this.#random.pick([60_000, 60_000, 5_000]);
    this.#times = { ttl, vaultLatency: this.#random.pick([15, 15, 120]) };
    this.#nodes = this.#isOdd ? this.#random.pick([1, 1, 2, 3]) : 1;
  }

  get #isOdd(): boolean {
    return this.#family === 'odd';
  }

  schedule(): Schedule {
    const random = this.#random;
    this.#rotations();
    this.#restarts();
    if (random.chance(0.15)) this.#deletion(random.chance(0.2));
    if (this.#isOdd && random.chance(0.3)) this.#illness();
    this.#traffic();
    if (this.#isOdd && random.chance(0.4)) this.#badEndpoints();
    if (this.#family === 'hostile') this.#hostility();
    // Together they take all looks, so others may wait for theirs.
    if (this.#isOdd && random.chance(0.05)) for (const caller of attackers) this.#rejectedLogins(caller);
    return {
      family: this.#family,
      seed: this.#seed,
      length: this.#length,
      instances: this.#instances,
      ...this.#times,
      kept: random.chance(0.1) ? 1 : 10,
      traits: this.#traits(),
      streams: this.#streams,
      events: this.#events.toSorted((a, b) => a.at - b.at),
    };
  }

  #traits(): Traits {
    const random = this.#random;
    const latency = random.pick([5, 20, 60]);
    const rejectsWith401 = random.chance(0.1);
    return {
      nodes: this.#nodes,
      refused: this.#oddly(0.12, 0.2),
      unanswered: this.#oddly(0.25, 0.01, 0.1),
      rejectsWith401,
      latency,
    };
  }

  #rotations(): void {
    const random = this.#random;
    let at = random.int(8_000, 23_000);
    for (let count = random.chance(0.2) ? 2 : 1; count > 0; count -= 1) {
      if (this.#idle === undefined && random.chance(0.03)) {
        this.#idle = { from: at - 1_000, to: at + idleTime };
        at += random.int(0, idleTime);
      }
      at = this.#rotation(at) + random.pick([3_000, 20_000, 60_000]);
    }
    this.#length = Math.max(at, this.#idle?.to ?? 0) + 30_000;
  }

  /** @returns its end, as the rollback does */
  #rotation(at: number): number {
    const random = this.#random;
    const [old, fresh] = [this.#accepted, this.#newKey()];
    const pause = random.pick([0, 1_000, 5_000, 20_000, 60_000, 120_000, 300_000, random.int(0, 300_000)]);
    const order = random.pick(['Vault first', 'Vault first', 'gateway first', 'at once', 'overlap']);
    let end = order === 'at once' ? at : at + pause;
    if (order === 'overlap') {
      const long = random.pick([2_000, 30_000, 60_000]);
      this.#accept(at, old, fresh);
      this.#write(at + random.pick([-3_000, 0, long / 2]), fresh);
      end = at + long;
      this.#accept(end, fresh);
    } else {
      this.#write(order === 'gateway first' ? end : at, fresh);
      this.#accept(order === 'gateway first' ? at : end, fresh);
    }
    this.#accepted = fresh;
    return random.chance(0.15) ? this.#rollback(end + random.int(1_000, 40_000), old) : end;
  }

  #rollback(at: number, old: string): number {
    const random = this.#random;
    const pause = random.pick([0, 2_000, 20_000]);
    const isGatewayFirst = random.chance(0.5);
    this.#accept(isGatewayFirst ? at : at + pause, old);
    this.#write(isGatewayFirst ? at + pause : at, old);
    this.#accepted = old;
    return at + 20_000;
  }

  #restarts(): void {
    const random = this.#random;
    if (!random.chance(0.5)) return;
    for (let count = random.int(1, 3); count > 0; count -= 1) {
      const number = random.int(0, this.#instances - 1);
      const what = random.pick(['restart', 'restart', 'reload'] as const);
      this.#add(random.int(5_000, this.#length - 10_000), `${what} of instance ${number}`, (world) =>
        world[what](number),
      );
    }
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
    const random = this.#random;
    const [caller = ''] = attackers;
    const bad = { endpoint: 'bad', unpermitted: 1 };
    const kind = random.pick(['rejections', 'inventions', 'malformed', 'logins']);
    if (kind === 'rejections')
      for (const operation of ['query', 'payment'] as const) this.#stream({ caller, operation, ...bad }, 10);
    if (kind === 'malformed')
      for (const operation of ['query', 'payment'] as const)
        this.#stream({ caller, operation, endpoint: 'main', malformed: 0.5, unpermitted: 0.6 }, 10);
    if (kind === 'inventions') {
      this.#times = { ttl: 5_000, vaultLatency: 120 };
      this.#deletion(true);
      this.#stream({ caller, operation: 'payment', ...bad, invents: 'endpoint' }, 10);
      this.#stream({ caller, operation: 'query', ...bad, login: 'invented', invents: 'login' }, 400);
    }
    if (kind === 'logins') this.#rejectedLogins(caller);
  }

  #rejectedLogins(caller: string): void {
    const what = { caller, operation: 'query', endpoint: 'main' } as const;
    for (let login = 0; login < 30; login += 1) this.#stream({ ...what, login: `${caller}${login}` }, 2);
  }

  /** One of the values with this chance, if the schedule is odd; else nothing. */
  #oddly(chance: number, ...values: number[]): number {
    return this.#isOdd && this.#random.chance(chance) ? this.#random.pick(values) : 0;
  }

  /** @param most requests a second */
  #stream(stream: Pick<Stream, 'caller' | 'operation' | 'endpoint'> & Partial<Stream>, most: number): void {
    const isRotating = stream.login === undefined;
    const random = this.#random;
    const seconds = this.#length / 1_000;
    const perSecond = isRotating
      ? Math.min(0.1 * (most * 10) ** random.next(), mostRequests / seconds)
      : most;
    const from = isRotating ? 0 : this.#length - 30_000;
    const whole = {
      login: rotating,
      malformed: 0,
      unpermitted: 0,
      ...stream,
      perSecond,
      from,
      to: this.#length,
    };
    const { from: idleFrom = this.#length, to: idleTo = this.#length } = this.#idle ?? {};
    this.#streams.push({ ...whole, to: Math.min(idleFrom, this.#length) });
    if (this.#idle !== undefined) this.#streams.push({ ...whole, from: Math.max(from, idleTo) });
  }

  #write(at: number, key: string): void {
    this.#add(at, `Vault: ${key}`, ({ vault }) => vault.write(rotating, key));
  }

  /** The nodes of one gateway need up to five seconds to agree. */
  #accept(at: number, ...keys: string[]): void {
    const spread = this.#random.pick([0, 0, 1_000, 5_000]);
    for (let node = 0; node < this.#nodes; node += 1) {
      const then = node === 0 ? at : at + spread * this.#random.next();
      this.#add(then, `gateway: node ${node} accepts ${keys.join(', ')}`, ({ gateway }) =>
        gateway.accept(node, keys),
      );
    }
  }

  #add(at: number, text: string, happen: (world: World) => void): void {
    this.#events.push({ at: Math.max(0, at), text, happen });
  }

  #newKey(): string {
    const key = String.fromCharCode('A'.charCodeAt(0) + this.#keys.length);
    this.#keys.push(key);
    return key;
  }
}
