import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { endpointOf, type QueryAbout } from '../../gateway/read-only-query.ts';
import { age, describeKey, findEqualKey } from '../../keys/describe.ts';
import type { UnusableKey, UsableKey } from '../../keys/key-source.ts';
import { createUpstreamClient } from '../../proxy/outbound/upstream-client.ts';
import { packageVersion } from '../../util/package-info.ts';
import { CliError } from '../shared/cli-error.ts';
import { type KeyVersionEntry, openInventory } from '../shared/inventory.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { parseOptions } from '../shared/parse-options.ts';
import { table } from '../shared/table.ts';
import {
  type CommonValues,
  commonOptions,
  commonUsage,
  type KeysContext,
  loginRefOf,
  withKeysContext,
} from './options.ts';
import { type ProbeResult, probeKey } from './probe.ts';

const usage = `Usage: countersign keys verify --config FILE --environment NAME --login LOGIN [options]

Asks the gateway, once with each key that Vault has for the login, something that changes nothing: an order's
status (RSA keys) or the manager's balances (control keys). Says which keys the gateway accepts. A status of
"order not found" is an accepted key.

Exit code: 0 the gateway accepts every key of the current version, 1 it does not. So, in a rotation:
  until countersign keys verify ...; do sleep 60; done

${commonUsage}
  --endpoint ID       endpoint for the status query (default: one that the configuration maps to the login)
  --client-orderid ID  order for the status query (default: a random one, which is not there)
  --interval SECONDS     between two queries, 0 to 60 (default: 1)`;

const options = {
  ...commonOptions,
  endpoint: { type: 'string' },
  'client-orderid': { type: 'string' },
  interval: { type: 'string', default: '1' },
} as const;

/** One key and what the gateway said to it. */
interface Verified extends ProbeResult {
  readonly held: KeyVersionEntry;
  readonly entry: UsableKey | UnusableKey;
}

export async function verifyKeys(argv: readonly string[], io: Io): Promise<number> {
  const read = parseOptions('keys verify', argv, options, usage, io);
  if ('exit' in read) return read.exit;
  const { values } = read;
  if (!/^\d{1,2}$/.test(values.interval) || Number(values.interval) > 60) {
    throw new CliError('--interval takes 0 to 60 seconds', exitCode.usage);
  }
  return withKeysContext(values, io, async (place) => {
    const { environment, login } = loginRefOf(place, values);
    const versions = await heldVersions(place, login);
    const query: QueryAbout = {
      environment,
      login,
      endpoint: values.endpoint ?? endpointOf(place.config, { environment, login }),
      clientOrderId: values['client-orderid'] ?? `countersign-verify-${randomBytes(8).toString('hex')}`,
    };
    const verified = await verifyAll(versions, place, query, Number(values.interval) * 1000);
    print(verified, query, values, io);
    const current = verified.filter(({ held }) => held.state === 'current');
    const accepted = current.length > 0 && current.every(({ result }) => result === 'accepted');
    return accepted ? exitCode.done : exitCode.failed;
  });
}

async function heldVersions(
  { keys, environment }: KeysContext,
  login: string,
): Promise<readonly KeyVersionEntry[]> {
  const inventory = openInventory(keys);
  try {
    const versions = await inventory.versions({ environment, login });
    if (versions.some((held) => held.keys.length > 0)) return versions;
    throw new CliError(`${environment}/${login} has no keys; is the login spelt right?`);
  } finally {
    await inventory.close();
  }
}

async function verifyAll(
  versions: readonly KeyVersionEntry[],
  place: KeysContext,
  query: QueryAbout,
  interval: number,
): Promise<Verified[]> {
  const { config, settings } = place;
  const ca = settings.caFile === undefined ? undefined : await readFile(settings.caFile, 'utf8');
  const forwarder = createUpstreamClient(settings, ca);
  const asker = { config, settings, forwarder, userAgent: `countersign/${packageVersion()}` };
  const verified: Verified[] = [];
  for (const { held, entry } of versions.flatMap((one) =>
    one.keys.map((key) => ({ held: one, entry: key })),
  )) {
    if ('problem' in entry) {
      verified.push({ held, entry, result: 'unusable', detail: entry.problem });
      continue;
    }
    const known = verified.find((one) => findEqualKey(entry, [one.entry]) !== undefined);
    if (known === undefined && verified.length > 0) await wait(interval);
    verified.push({ ...(known ?? (await probeKey(query, entry, asker))), held, entry });
  }
  return verified;
}

function print(verified: readonly Verified[], query: QueryAbout, { json }: CommonValues, io: Io): void {
  const { environment, login } = query;
  if (json) {
    io.out(JSON.stringify({ environment, login, keys: verified.map(jsonOf) }, null, 2));
    return;
  }
  io.out(`${environment}/${login}`);
  const rows = verified.map(({ held, entry, result, status, detail }) => [
    String(held.version),
    entry.kind,
    age(held.createdAt, Date.now()),
    describeKey(entry).fingerprint?.slice(0, 16) ?? '-',
    `${answers[result]}${status === undefined ? '' : ` (${status})`}${detail === undefined ? '' : `: ${detail}`}`,
  ]);
  for (const line of table(['VERSION', 'KIND', 'AGE', 'FINGERPRINT', 'ANSWER'], rows)) io.out(line);
}

const answers: Readonly<Record<ProbeResult['result'], string>> = {
  accepted: 'accepted',
  refused: 'refused',
  unclear: 'neither accepted nor refused',
  'no-answer': 'no answer',
  unusable: 'unusable',
  'not-asked': 'not asked',
};

function jsonOf({ held, entry, result, status, detail }: Verified) {
  const { version, createdAt, state } = held;
  const { kind, fingerprint } = describeKey(entry);
  return { version, kind, createdAt: createdAt?.toISOString(), state, fingerprint, result, status, detail };
}
