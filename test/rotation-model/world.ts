import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { SourceUnavailable } from '../../src/keys/errors.ts';
import type { KeyRing, LoginRef, UsableKey } from '../../src/keys/key-source.ts';
import type { KeyKind, SigningKey } from '../../src/oauth1/methods.ts';
import { reveal, Secret } from '../../src/secret.ts';
import type { Random } from '../support/random.ts';
import { type Action, kindOf, type OperationName } from './schedule.ts';
import { epoch, type VirtualTime } from './virtual-time.ts';

const pem = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
});
/** One object per name is enough, since nothing is really signed. */
const privateKeys = new Map<string, KeyObject>();
const never = Number.NEGATIVE_INFINITY;
/** As in src/keys/vault/source.ts. */
const maxPreviousVersions = 4;
/** Milliseconds until a read without a response fails, as keys.vault.timeout. */
const readTimeout = 5_000;

interface Version {
  readonly control: string;
  readonly rsa: string;
  readonly createdAt: number;
  deleted: boolean;
}

function privateKeyOf(name: string): KeyObject {
  const known = privateKeys.get(name) ?? createPrivateKey(pem);
  privateKeys.set(name, known);
  return known;
}

export function nameOf(key: SigningKey): string {
  if (key.kind === 'control_key') return reveal(key.secret);
  return [...privateKeys].find(([, privateKey]) => privateKey === key.privateKey)?.[0] ?? '';
}

/** Vault's KV version 2 with the keys of one login. */
export class Vault {
  down = false;
  latency = 5;
  /** Resolves when reads get responses again; absent while they get them. */
  #hang: PromiseWithResolvers<void> | undefined;
  readonly #time: VirtualTime;
  readonly #random: Random;
  readonly #versions: Version[] = [{ control: 'c1', rsa: 'r1', createdAt: -1e6, deleted: false }];

  constructor(time: VirtualTime, random: Random) {
    this.#time = time;
    this.#random = random;
  }

  write(fields: { readonly control?: string; readonly rsa?: string }): void {
    const { control, rsa } = this.#versions.at(-1) ?? { control: 'c1', rsa: 'r1' };
    this.#versions.push({ control, rsa, ...fields, createdAt: this.#time.now, deleted: false });
  }

  delete(number = this.#versions.length): void {
    const version = this.#versions[number - 1];
    if (version !== undefined) version.deleted = true;
  }

  rollback(number: number): void {
    const version = this.#versions[number - 1];
    if (version !== undefined && !version.deleted) this.write({ control: version.control, rsa: version.rsa });
  }

  /** Whether reads fail or get no response. */
  get failing(): boolean {
    return this.down || this.#hang !== undefined;
  }

  hang(on: boolean): void {
    if (on) {
      this.#hang ??= Promise.withResolvers();
      return;
    }
    this.#hang?.resolve();
    this.#hang = undefined;
  }

  /** The names of the keys that a read would find now, if it does not fail. */
  stored(kind: KeyKind): readonly string[] {
    return (this.#ring() ?? []).flatMap((entry) =>
      entry.kind === kind && 'key' in entry ? [nameOf(entry.key)] : [],
    );
  }

  /** The result was true at some time during the read. */
  async read(login: LoginRef): Promise<KeyRing | undefined> {
    const before = Math.round(this.latency * this.#random.next());
    await this.#time.wait(before);
    if (this.#hang !== undefined && !(await this.#response(this.#hang.promise)))
      throw new SourceUnavailable(login, new Error('timeout'), 'down');
    const { down } = this;
    const ring = this.#ring();
    await this.#time.wait(this.latency - before);
    if (down) throw new SourceUnavailable(login, new Error('down'), 'down');
    return ring;
  }

  /** Whether a read gets a response before it fails. */
  #response(hangs: Promise<void>): Promise<boolean> {
    return Promise.race([hangs.then(() => true), this.#time.wait(readTimeout).then(() => false)]);
  }

  #ring(): KeyRing | undefined {
    const current = this.#versions.length;
    if (this.#versions.at(-1)?.deleted !== false) return undefined;
    return this.#versions
      .flatMap((version, index) =>
        version.deleted || index < current - 1 - maxPreviousVersions ? [] : this.#keysOf(version, index),
      )
      .toReversed();
  }

  #keysOf({ control, rsa, createdAt }: Version, index: number): UsableKey[] {
    const next = this.#versions[index + 1];
    const superseded = next === undefined ? {} : { supersededAt: new Date(epoch + next.createdAt) };
    const about = { version: index + 1, createdAt: new Date(epoch + createdAt), ...superseded };
    return [
      { kind: 'control_key', ...about, key: { kind: 'control_key', secret: new Secret(control) } },
      {
        kind: 'private_key',
        ...about,
        key: { kind: 'private_key', privateKey: privateKeyOf(rsa) },
        fingerprint: rsa,
      },
    ];
  }
}

export interface Judged {
  readonly status: number;
  /** Whether a 403 is about the key. */
  readonly aboutKey: boolean;
  /** Milliseconds by which the clock of the gateway is ahead. */
  readonly skew: number;
  /** The keys of this kind that every node accepted at that moment. */
  readonly accepted: readonly string[];
  /** Whether the nodes accepted the same keys. */
  readonly agreed: boolean;
  /** When what a node accepts last changed. */
  readonly changedAt: number;
}

/** Several nodes behind one address, each with its own keys. */
export class Gateway {
  latency = 5;
  skewed = false;
  shutOut = false;
  readonly disabled = new Set<string>();
  readonly #time: VirtualTime;
  readonly #random: Random;
  readonly #nodes: Record<KeyKind, readonly string[]>[];
  readonly #changes: Record<KeyKind, { count: number; at: number }> = {
    control_key: { count: 0, at: never },
    private_key: { count: 0, at: never },
  };

  constructor(nodes: number, time: VirtualTime, random: Random) {
    this.#time = time;
    this.#random = random;
    this.#nodes = Array.from({ length: nodes }, () => ({ control_key: ['c1'], private_key: ['r1'] }));
  }

  accept(kind: KeyKind, keys: readonly string[], node: number | undefined): void {
    for (const [index, one] of this.#nodes.entries())
      if (node === undefined || node === index) one[kind] = keys;
    this.changed(kind);
  }

  /** From now on requests with keys of this kind may get other responses. */
  changed(kind: KeyKind): void {
    this.#changes[kind] = { count: this.#changes[kind].count + 1, at: this.#time.now };
  }

  /** Number of calls of {@link changed}. */
  changes(kind: KeyKind): number {
    return this.#changes[kind].count;
  }

  /** Whether every node accepts the same keys. */
  agrees(kind: KeyKind): boolean {
    const accepted = this.accepted(kind);
    return this.#nodes.every((node) => node[kind].every((key) => accepted.includes(key)));
  }

  /** Keys that every node accepts. */
  accepted(kind: KeyKind): readonly string[] {
    const [first, ...others] = this.#nodes.map((node) => node[kind]);
    return (first ?? []).filter((key) => others.every((keys) => keys.includes(key)));
  }

  judge(operation: OperationName, key: string): Judged {
    const kind = kindOf[operation];
    const node = this.#nodes[this.#random.int(0, this.#nodes.length - 1)];
    const unrelated = this.skewed || this.shutOut || this.disabled.has(operation);
    const isKnown = node?.[kind].includes(key) ?? false;
    const skew = this.skewed ? 300_000 : 0;
    return {
      status: isKnown && !unrelated ? 200 : 403,
      aboutKey: !unrelated,
      skew,
      accepted: this.accepted(kind),
      agreed: this.agrees(kind),
      changedAt: this.#changes[kind].at,
    };
  }
}

const kinds: readonly KeyKind[] = ['control_key', 'private_key'];
const unrelatedToKeys: ReadonlySet<string> = new Set(['gateway-skew', 'gateway-shut-out', 'gateway-disable']);

/** Applies an action on Vault or the gateway; ignores others. */
export function apply(action: Action, vault: Vault, gateway: Gateway): void {
  if (unrelatedToKeys.has(action.do)) for (const kind of kinds) gateway.changed(kind);
  if (action.do === 'vault-write')
    vault.write({
      ...(action.control === undefined ? {} : { control: action.control }),
      ...(action.rsa === undefined ? {} : { rsa: action.rsa }),
    });
  else if (action.do === 'vault-delete') vault.delete(action.version);
  else if (action.do === 'vault-rollback') vault.rollback(action.version);
  else if (action.do === 'vault-outage') vault.down = action.down;
  else if (action.do === 'vault-hang') vault.hang(action.on);
  else if (action.do === 'vault-latency') vault.latency = action.latency;
  else if (action.do === 'gateway-accept') gateway.accept(action.kind, action.keys, action.node);
  else if (action.do === 'gateway-latency') gateway.latency = action.latency;
  else if (action.do === 'gateway-skew') gateway.skewed = action.on;
  else if (action.do === 'gateway-shut-out') gateway.shutOut = action.on;
  else if (action.do === 'gateway-disable') gateway.disabled[action.on ? 'add' : 'delete'](action.operation);
}
