import type { Config } from '../../config/schema.ts';
import { age, describeKey } from '../../keys/describe.ts';
import type { KeyRing, KeySource, LoginRef } from '../../keys/key-source.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import { operatorMessage } from '../shared/cli-error.ts';
import type { KeyInventory } from '../shared/inventory.ts';
import { isPattern, type RequiredKey, requiredKeys } from './required-keys.ts';
import { type CheckResult, runCheck } from './result.ts';

type ReadRing = (address: LoginRef) => Promise<KeyRing | undefined>;

/** A row for each key that the grants need: whether it is there and can be used. */
export async function checkKeys(
  config: Config,
  source: KeySource,
  inventory: KeyInventory,
): Promise<CheckResult[]> {
  const readRing = memoize((address) => source.read(address));
  const rows: CheckResult[] = [];
  for (const granted of requiredKeys(config)) {
    rows.push(...(await (isPattern(granted) ? checkPattern : checkLogin)(granted, readRing, inventory)));
  }
  return rows.filter((row, at) => rows.findIndex(({ subject }) => subject === row.subject) === at);
}

async function checkLogin({ environment, logins: login, kind }: RequiredKey, readRing: ReadRing) {
  const subject = `${environment}/${login} ${kind}`;
  const look = async (): Promise<string> => {
    const ring = await readRing({ environment, login });
    const [newest] = ring?.filter((entry) => entry.kind === kind) ?? [];
    if (newest === undefined) throw new Error(ring === undefined ? 'the login has no keys' : noSuchKey);
    if (newest.supersededAt !== undefined) throw new Error(endsSoon);
    if ('problem' in newest) throw new Error(`version ${newest.version}: ${newest.problem}`);
    const { bits } = describeKey(newest);
    const since = newest.createdAt === undefined ? '' : `, ${age(newest.createdAt, Date.now())} old`;
    return `version ${newest.version}${since}${bits === undefined ? '' : `, RSA of ${bits} bits`}`;
  };
  return [await runCheck({ check: 'key', subject }, look, operatorMessage)];
}

const noSuchKey = 'the login has no key of this kind';
const endsSoon = 'the newest version lacks this kind of key; that of a version before is used for a while';

/** A login that only a pattern names need not have every kind of key; what it has must be usable. */
async function checkPattern(granted: RequiredKey, readRing: ReadRing, inventory: KeyInventory) {
  const { environment, logins: pattern, kind } = granted;
  const row = { check: 'key', subject: `${environment}/${pattern} ${kind}`, result: 'not-checked' } as const;
  const known = await inventory.logins(environment).catch(() => undefined);
  if (known === undefined) {
    return [{ ...row, detail: 'the grant uses a wildcard, and the logins that are there cannot be listed' }];
  }
  const logins = known.filter((login) => login.startsWith(pattern.slice(0, -1)));
  const rows: CheckResult[] = [];
  for (const login of logins) {
    const [found] = await checkLogin({ environment, logins: login, kind }, readRing);
    if (found !== undefined)
      rows.push(found.detail === noSuchKey ? { ...found, result: 'not-checked' } : found);
  }
  return rows.length === 0 ? [{ ...row, detail: 'no login that is there matches the wildcard' }] : rows;
}

/** Reads each address once. */
function memoize(read: ReadRing): ReadRing {
  const rings = new Map<string, Promise<KeyRing | undefined>>();
  return (address) => {
    const name = loginRefString(address);
    const ring = rings.get(name) ?? read(address);
    rings.set(name, ring);
    return ring;
  };
}
