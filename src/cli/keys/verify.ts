import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { createOperationTable } from '../../gateway/operations.ts';
import { endpointOf, type QueryAbout, readOnlyQuery } from '../../gateway/read-only-query.ts';
import { isRejection, notableSkew, skewOf } from '../../gateway/response.ts';
import { createRoutes } from '../../gateway/router.ts';
import { age, describeKey } from '../../keys/key.ts';
import { findEqualKey, type UnusableKey, type UsableKey, usableIn } from '../../keys/ring.ts';
import { VaultError } from '../../keys/vault/errors.ts';
import { readTlsMaterial } from '../../net/tls-files.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import { sign, signWith } from '../../oauth1/sign.ts';
import { unlimitedMemory } from '../../proxy/limits.ts';
import { buildUpstreamRequest, unsignedRequest } from '../../proxy/outbound/signed-request.ts';
import { createUpstreamClient } from '../../proxy/outbound/upstream-client.ts';
import { UpstreamError } from '../../proxy/outbound/upstream-error.ts';
import type { GatewayResponse } from '../../proxy/outbound/upstream-request.ts';
import { packageVersion } from '../../service/package-info.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, type Io, parsed, wholeNumber } from '../shared/command.ts';
import type { KeyInventory, KeyVersionEntry } from '../shared/inventory.ts';
import { requiredKeys } from '../shared/required-keys.ts';
import { table } from '../shared/table.ts';
import { type CommonValues, commonOptions, type KeysContext, loginRefOf, withStoredKeys } from './options.ts';

/** What the gateway responded to a query signed with one key. */
interface ProbeResult {
  readonly result: 'accepted' | 'rejected' | 'inconclusive' | 'no-response' | 'unusable' | 'skipped';
  readonly status?: number;
  readonly detail?: string;
}

const options = {
  ...commonOptions,
  'endpoint ID': 'Endpoint of the status query (default: an endpoint mapped to the login)',
  'client-orderid ID': 'Order of the status query (default: random, nonexistent)',
  'interval SECONDS': parsed(
    'Delay between queries, 0 to 60',
    wholeNumber(0, 60, 'must be between 0 and 60'),
    '1',
  ),
};

const spec = {
  name: 'keys verify',
  usage: '--config FILE --environment NAME --login LOGIN [options]',
  about:
    'Sends the gateway a read-only request signed with each key that Vault has for the login: an order status query (RSA keys) or a manager balance query (control keys). Shows which keys the gateway accepts. "Order not found" counts as accepted. A key is missing if an older version has it (vault kv delete -versions=N if it is not needed any more), or if a grant needs it that names this very login; patterns do not count.',
  options,
  exitCodes:
    '0 the gateway accepts every key of the current version, and none is missing, 1 otherwise, 2 invalid configuration or usage. During a rotation: until countersign keys verify ...; do sleep 60; done',
};

interface VerifiedKey extends ProbeResult {
  readonly entry: KeyVersionEntry;
  readonly key: UsableKey | UnusableKey;
}

export const verifyKeys = command(spec, ({ values }, io) =>
  withStoredKeys(values, io, async (inventory, context) => {
    const { environment, login } = loginRefOf(context, values);
    const query: QueryAbout = {
      environment,
      login,
      endpoint: values.endpoint ?? endpointOf(context.config, { environment, login }),
      clientOrderId: values['client-orderid'] ?? `countersign-verify-${randomBytes(8).toString('hex')}`,
    };
    const versions = await inventory.versions({ environment, login });
    if (versions.every(({ keys }) => keys.length === 0))
      throw new CliError(`${environment}/${login} has no keys; check the spelling`);
    const probe = proberOf(context, query, inventory);
    const verified = await verifyEach(withMissing(versions, query, context), probe, values.interval * 1000);
    print(verified, query, values, io);
    const current = verified.filter(({ entry }) => entry.state === 'current');
    const accepted = current.length > 0 && current.every(({ result }) => result === 'accepted');
    return accepted ? exitCode.done : exitCode.failed;
  }),
);

/** The newest version also with what it lacks: a key that an older one has, or that a grant of this very login needs. */
function withMissing(
  versions: readonly KeyVersionEntry[],
  { environment, login }: QueryAbout,
  { config }: KeysContext,
): KeyVersionEntry[] {
  const needed = requiredKeys(config, createOperationTable(config))
    .filter((key) => key.environment === environment && key.logins === login)
    .map(({ kind }) => [kind, 'no such key, but a grant of this login needs it'] as const);
  const held = versions
    .flatMap(({ keys }) => usableIn(keys))
    .map(({ kind }) => [kind, 'no such key, but an older version has it'] as const);
  const problems = new Map([...needed, ...held]);
  return versions.map((entry) => {
    if (entry.state !== 'current') return entry;
    const { version, keys } = entry;
    for (const { kind } of keys) problems.delete(kind);
    const missing = [...problems].map(([kind, problem]) => ({ kind, version, problem }));
    return { ...entry, keys: [...missing, ...keys] };
  });
}

async function verifyEach(
  versions: readonly KeyVersionEntry[],
  probe: (key: UsableKey) => Promise<ProbeResult>,
  interval: number,
): Promise<VerifiedKey[]> {
  const verified: VerifiedKey[] = [];
  for (const { entry, key } of versions.flatMap((entry) => entry.keys.map((key) => ({ entry, key })))) {
    if ('problem' in key) {
      verified.push({ entry, key, result: 'unusable', detail: key.problem });
      continue;
    }
    const known = verified.find((other) => findEqualKey(key, [other.key]) !== undefined);
    if (known === undefined && verified.length > 0) await wait(interval);
    verified.push({ ...(known ?? (await probe(key))), entry, key });
  }
  return verified;
}

function print(verified: readonly VerifiedKey[], query: QueryAbout, { json }: CommonValues, io: Io): void {
  const { environment, login } = query;
  if (json) {
    io.out(JSON.stringify({ environment, login, keys: verified.map(jsonOf) }, null, 2));
    return;
  }
  io.out(`${environment}/${login}`);
  const rows = verified.map(({ entry, key, result, status, detail }) => [
    String(entry.version),
    key.kind,
    age(entry.createdAt, Date.now()),
    describeKey(key).fingerprint?.slice(0, 16) ?? '-',
    `${result.replace('-', ' ')}${status === undefined ? '' : ` (${status})`}${detail === undefined ? '' : `: ${detail}`}`,
  ]);
  for (const line of table(['VERSION', 'KIND', 'AGE', 'FINGERPRINT', 'RESULT'], rows)) io.out(line);
}

function jsonOf({ entry, key, result, status, detail }: VerifiedKey) {
  const { version, createdAt, state } = entry;
  const { kind, fingerprint } = describeKey(key);
  return { version, kind, createdAt: createdAt?.toISOString(), state, fingerprint, result, status, detail };
}

/** Sends one read-only query signed with a key, with the timeouts of the environment. No retries. */
function proberOf({ config, settings }: KeysContext, query: QueryAbout, inventory: KeyInventory) {
  const routes = createRoutes(config);
  const upstream = createUpstreamClient(settings, readTlsMaterial(settings));
  const { connect, request: total } = settings.timeouts;
  return async ({ kind, key }: UsableKey): Promise<ProbeResult> => {
    const method = kind === 'control_key' ? 'HMAC-SHA1' : 'RSA-SHA256';
    const readOnly = readOnlyQuery(routes, query, method);
    if (readOnly === 'no-operation') {
      return { result: 'skipped', detail: 'no read-only operation uses this key type' };
    }
    if (readOnly === 'no-endpoint') {
      return { result: 'skipped', detail: 'a status query requires --endpoint ID' };
    }
    const { destination, form } = readOnly;
    const unsigned = unsignedRequest(
      { destination, login: query.login, form },
      method,
      randomBytes(16).toString('hex'),
      Math.floor(Date.now() / 1000),
    );
    const signed = await ('publicKey' in key
      ? signWith(unsigned, (text) => inventory.sign(key, text)).catch(withoutSignature)
      : sign(unsigned, key));
    if ('result' in signed) return signed;
    const request = buildUpstreamRequest(destination.url, signed, `countersign/${packageVersion()}`);
    const options = { dedicatedConnection: true, connect, total, readOnly: true, memory: unlimitedMemory() };
    const sentAt = Date.now();
    try {
      const response = await upstream.send(request, options);
      return resultOf(response, kind, skewOf(response.headers.date, { sentAt, receivedAt: Date.now() }));
    } catch (error) {
      if (error instanceof UpstreamError) return { result: 'no-response', detail: error.reason };
      throw error;
    }
  };
}

/** Vault does not sign with this key, whatever it does with the others. */
function withoutSignature(error: unknown): ProbeResult {
  if (error instanceof VaultError) return { result: 'unusable', detail: error.message };
  throw error;
}

/** docs/gateway-interface.md sections 4.1, 4.2 and 7: 200 for a valid signature, a rejection of an invalid one. */
function resultOf({ status, rest }: GatewayResponse, kind: KeyKind, clockSkew = 0): ProbeResult {
  rest?.destroy();
  if (status === 200) return { result: 'accepted', status };
  if (!isRejection(status)) return { result: 'inconclusive', status };
  const skew = Math.abs(clockSkew);
  const notes = [
    ...(kind === 'control_key' ? ['wrong key, or balances are not enabled'] : []),
    ...(skew > notableSkew ? [`clock skew of ${Math.round(skew)} s`] : []),
  ];
  return { result: 'rejected', status, ...(notes.length === 0 ? {} : { detail: notes.join('; ') }) };
}
