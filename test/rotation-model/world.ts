import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { SourceUnavailable } from '../../src/keys/errors.ts';
import { type Parsed, parseKeys, usableRsa } from '../../src/keys/key.ts';
import type { LoginRef } from '../../src/keys/login-ref.ts';
import type { UsableKey } from '../../src/keys/ring.ts';
import { identityOf, type KeyVersion, type ReadVersion } from '../../src/keys/vault/read-ring.ts';
import type { KeyKind } from '../../src/oauth1/methods.ts';
import { reveal } from '../../src/secret.ts';
import type { Random } from '../support/random.ts';
import { type Action, kindOf, type OperationName } from './schedule.ts';
import { epoch, type VirtualTime } from './virtual-time.ts';

const never = Number.NEGATIVE_INFINITY;
/** As in src/keys/vault/read-ring.ts. */
const maxVersions = 10;
const maxKeys = 5;
/** Milliseconds until a read without a response fails, as keys.vault.timeout. */
const readTimeout = 5_000;

interface Stored {
  readonly control: string;
  readonly rsa: string;
  /** As it is read: its keys are parsed once. */
  readonly version: KeyVersion;
  deleted: boolean;
}

/** RSA keys by name, in PEM, and the names of their public keys. Nothing is really signed. */
const pems = new Map<string, string>();
const names = new Map<string, string>();
/** Of private keys that were read. */
const namesOfRead = new WeakMap<KeyObject, string>();

function pemOf(name: string): string {
  const known = pems.get(name);
  if (known !== undefined) return known;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  pems.set(name, pem);
  names.set(publicPart(privateKey), name);
  return pem;
}

function publicOf(key: KeyObject): KeyObject {
  return key.type === 'public' ? key : createPublicKey(key);
}

function publicPart(privateKey: KeyObject): string {
  return publicOf(privateKey).export({ type: 'spki', format: 'der' }).toString('base64');
}

export function nameOf(key: UsableKey['key']): string {
  if (key.kind === 'control_key') return reveal(key.secret);
  const object = 'publicKey' in key ? key.publicKey : key.privateKey;
  const name = namesOfRead.get(object) ?? names.get(publicPart(object)) ?? '';
  namesOfRead.set(object, name);
  return name;
}

/** Every other RSA key is in Vault's Transit engine, so that most rotations move a login there or back. */
function transitKeyOf(name: string): Parsed {
  const publicKey = createPublicKey(pemOf(name));
  return usableRsa({ kind: 'private_key', mount: 'transit', name, keyVersion: 1, publicKey }, publicKey);
}

function newVersion(
  number: number,
  keys: { readonly control: string; readonly rsa: string },
  at: number,
): Stored {
  const isInTransit = Number(keys.rsa.slice(1)) % 2 === 0;
  const rsa = isInTransit ? { transit_key: `${keys.rsa}:1` } : { private_key: pemOf(keys.rsa) };
  const transit = isInTransit ? transitKeyOf(keys.rsa) : undefined;
  const fields = { control_key: keys.control, ...rsa };
  const about = { version: number, createdAt: new Date(epoch + at) };
  return { ...keys, version: { ...about, fields, keys: parseKeys(fields, about, transit) }, deleted: false };
}

/** Vault's KV version 2 with the keys of one login. */
export class Vault {
  down = false;
  denied = false;
  latency = 5;
  /** Resolves when reads get responses again; absent while they get them. */
  #hang: PromiseWithResolvers<void> | undefined;
  readonly #time: VirtualTime;
  readonly #random: Random;
  /** Empty: it does not know the login. */
  #versions: readonly Stored[] = [newVersion(1, { control: 'c1', rsa: 'r1' }, -1e6)];
  /** What it last had before. */
  #forgotten: readonly Stored[] = [];

  constructor(time: VirtualTime, random: Random) {
    this.#time = time;
    this.#random = random;
  }

  write(fields: { readonly control?: string; readonly rsa?: string }): void {
    const { control, rsa } = [...this.#forgotten, ...this.#versions].at(-1) ?? { control: 'c1', rsa: 'r1' };
    const written = newVersion(this.#versions.length + 1, { control, rsa, ...fields }, this.#time.now);
    this.#versions = [...this.#versions, written];
  }

  delete(number = this.#versions.length): void {
    const version = this.#versions[number - 1];
    if (version !== undefined) version.deleted = true;
  }

  /** All versions. */
  setDeleted(deleted: boolean): void {
    for (const version of this.#versions) version.deleted = deleted;
  }

  rollback(number: number): void {
    const version = this.#versions[number - 1];
    if (version !== undefined && !version.deleted) this.write({ control: version.control, rsa: version.rsa });
  }

  forget(): void {
    if (this.#versions.length > 0) this.#forgotten = this.#versions;
    this.#versions = [];
  }

  /** As from a backup; not if there are new versions. */
  remember(): void {
    if (this.#versions.length === 0) this.#versions = this.#forgotten;
  }

  /** Whether reads fail, get no response, or do not find the login. */
  get failing(): boolean {
    return this.down || this.denied || this.#hang !== undefined || this.#versions.length === 0;
  }

  hang(on: boolean): void {
    if (on) {
      this.#hang ??= Promise.withResolvers();
      return;
    }
    this.#hang?.resolve();
    this.#hang = undefined;
  }

  /** The names of the keys that a read of any instance would find now, if it does not fail. */
  stored(kind: KeyKind): readonly string[] {
    const live = this.#versions.slice(-maxVersions).filter(({ deleted }) => !deleted);
    return [...new Set(live.toReversed().map((version) => keyIn(version, kind)))].slice(0, maxKeys);
  }

  /** The names of the keys whose versions were all deleted. */
  deleted(kind: KeyKind): readonly string[] {
    const live = this.#versions.filter(({ deleted }) => !deleted).map((version) => keyIn(version, kind));
    return this.#versions.map((version) => keyIn(version, kind)).filter((name) => !live.includes(name));
  }

  /** Identifies the current version, as for the instance; `undefined`: it does not know the login. */
  get current(): string | undefined {
    const current = this.#version();
    return current && identityOf(current);
  }

  /** Whether it knows the login, and deleted all its versions. */
  get allDeleted(): boolean {
    return this.#versions.length > 0 && this.#versions.every(({ deleted }) => deleted);
  }

  /** What comes of reading single versions. What the first one says was true at some time during the read. */
  async read<Result>(login: LoginRef, work: (readVersion: ReadVersion) => Promise<Result>): Promise<Result> {
    const before = Math.round(this.latency * this.#random.next());
    await this.#time.wait(before);
    if (this.#hang !== undefined && !(await this.#response(this.#hang.promise)))
      throw new SourceUnavailable(login, new Error('timeout'), 'down');
    const { down, denied } = this;
    let left = this.latency - before;
    if (down || denied) {
      await this.#time.wait(left);
      throw new SourceUnavailable(login, new Error(down ? 'down' : 'denied'), down ? 'down' : 'denied');
    }
    let isFirst = true;
    const result = await work(async (number) => {
      const pause = isFirst ? 0 : Math.floor(left / 2);
      isFirst = false;
      left -= pause;
      if (pause > 0) await this.#time.wait(pause);
      return this.#version(number);
    });
    await this.#time.wait(left);
    return result;
  }

  /** Whether a read gets a response before it fails. */
  #response(hangs: Promise<void>): Promise<boolean> {
    return Promise.race([hangs.then(() => true), this.#time.wait(readTimeout).then(() => false)]);
  }

  #version(number = this.#versions.length): KeyVersion | undefined {
    const stored = this.#versions[number - 1];
    if (stored === undefined) return undefined;
    const { version, createdAt } = stored.version;
    return stored.deleted ? { version, createdAt, keys: [] } : stored.version;
  }
}

function keyIn({ control, rsa }: Stored, kind: KeyKind): string {
  return kind === 'control_key' ? control : rsa;
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
  else if (action.do === 'vault-delete-all') vault.setDeleted(true);
  else if (action.do === 'vault-undelete') vault.setDeleted(false);
  else if (action.do === 'vault-forget') vault.forget();
  else if (action.do === 'vault-remember') vault.remember();
  else if (action.do === 'vault-deny') vault.denied = true;
  else if (action.do === 'vault-permit') vault.denied = false;
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
