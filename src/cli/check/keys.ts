import { age, describeKey } from '../../keys/describe.ts';
import type { KeyRing, KeySource, LoginRef } from '../../keys/key-source.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import { ringIn } from '../../keys/ring.ts';
import { operatorMessage } from '../shared/cli-error.ts';
import type { KeyInventory } from '../shared/inventory.ts';
import { isPattern, type RequiredKey } from './required-keys.ts';
import { type CheckResult, runCheck } from './result.ts';

type ReadRing = (login: LoginRef) => Promise<KeyRing | undefined>;

/** Checks that each of these keys exists and is usable. */
export async function checkKeys(
  requiredKeys: readonly RequiredKey[],
  source: KeySource,
  inventory: KeyInventory,
): Promise<CheckResult[]> {
  const readRing = memoize(async (login) => ringIn(await source.read(login)));
  const rows: CheckResult[] = [];
  for (const required of requiredKeys) {
    rows.push(...(await (isPattern(required) ? checkPattern : checkLogin)(required, readRing, inventory)));
  }
  return rows.filter((row, at) => rows.findIndex(({ subject }) => subject === row.subject) === at);
}

async function checkLogin(
  { environment, logins: login, kind }: RequiredKey,
  readRing: ReadRing,
  inventory: KeyInventory,
): Promise<CheckResult[]> {
  const subject = `${environment}/${login} ${kind}`;
  const describeNewest = async (): Promise<string> => {
    await assertPermitted({ environment, login }, inventory);
    const ring = await readRing({ environment, login });
    const [newest] = ring?.filter((entry) => entry.kind === kind) ?? [];
    if (newest === undefined) throw new Error(ring === undefined ? 'the login has no keys' : kindMissing);
    if (newest.supersededAt !== undefined) throw new Error(kindSuperseded);
    if ('problem' in newest) throw new Error(`version ${newest.version}: ${newest.problem}`);
    const { bits } = describeKey(newest);
    const keyAge = newest.createdAt === undefined ? '' : `, ${age(newest.createdAt, Date.now())} old`;
    return `version ${newest.version}${keyAge}${bits === undefined ? '' : `, RSA ${bits} bits`}`;
  };
  const result = await runCheck({ check: 'key', subject }, describeNewest, operatorMessage);
  // A token that may not read metadata is the usual one.
  const keepsOne = await inventory.keepsOneVersion({ environment, login }).catch(() => false);
  if (result.result !== 'ok' || !keepsOne) return [result];
  return [{ ...result, result: 'warning', detail: `${result.detail}; ${oneVersion}` }];
}

/** @throws Error with the path that the policy of this login to the key source does not permit */
async function assertPermitted(login: LoginRef, inventory: KeyInventory): Promise<void> {
  // A token without the policy `default` may not find it out: then reading a key shows it.
  const path = await inventory.deniedPath(login).catch(() => undefined);
  if (path !== undefined) throw new Error(`Vault denies reading ${path}; its policy must permit it`);
}

const kindMissing = 'the login has no key of this kind';
const kindSuperseded =
  'the newest version was deleted; the one before it is used until the grace period ends';
const oneVersion =
  'Vault keeps only one version (max_versions=1), so an instance that starts during a rotation lacks the previous key';

/** A login that only a pattern matches need not have every kind of key, but those it has must be usable. */
async function checkPattern(required: RequiredKey, readRing: ReadRing, inventory: KeyInventory) {
  const { environment, logins: pattern, kind } = required;
  const row = { check: 'key', subject: `${environment}/${pattern} ${kind}`, result: 'not-checked' } as const;
  const known = await inventory.logins(environment).catch(() => undefined);
  const some = { environment, login: `${pattern.slice(0, -1)}some-login` };
  const permitted = () => assertPermitted(some, inventory).then(() => '');
  const result = await runCheck(row, permitted, operatorMessage);
  if (known === undefined) {
    if (result.result === 'failed') return [result];
    return [{ ...row, detail: 'wildcard grant; the key source does not permit listing logins' }];
  }
  const logins = known.logins.filter((login) => login.startsWith(pattern.slice(0, -1)));
  const rows: CheckResult[] = [];
  for (const login of logins) {
    const [found] = await checkLogin({ environment, logins: login, kind }, readRing, inventory);
    if (found !== undefined)
      rows.push(found.detail === kindMissing ? { ...found, result: 'not-checked' } : found);
  }
  if (rows.length > 0) return rows;
  return [result.result === 'failed' ? result : { ...row, detail: 'no login matches' }];
}

function memoize(read: ReadRing): ReadRing {
  const rings = new Map<string, Promise<KeyRing | undefined>>();
  return (login) => {
    const name = loginRefString(login);
    const ring = rings.get(name) ?? read(login);
    rings.set(name, ring);
    return ring;
  };
}
