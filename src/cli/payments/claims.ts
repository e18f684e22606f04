import { hostname, userInfo } from 'node:os';
import { clientOrderIdOf } from '../../audit/record-fields.ts';
import { loadConfig, type ValidConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { builtInOperations, createOperationTable } from '../../gateway/operations.ts';
import { orderIdNames } from '../../identifiers.ts';
import { type Claim, claimName, type Order, parseClaim } from '../../once/claim.ts';
import type { RedisStore } from '../../once/redis-store.ts';
import { StoreUnavailable } from '../../once/store.ts';
import { openAudit } from '../../service/audit.ts';
import { readOnceKey } from '../../service/once.ts';
import { isoTime } from '../../util/clock.ts';
import { openClaims } from '../shared/claims.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, type Io, type OptionValues } from '../shared/command.ts';
import { configFileOf, validConfig } from '../shared/config-file.ts';

const options = {
  'config FILE': 'Configuration file (COUNTERSIGN_CONFIG)',
  'environment NAME': 'Environment of the payment',
  'login LOGIN': 'Login of the payment',
  'operation NAME': 'Operation of the payment',
};

const releaseOptions = {
  ...options,
  'request ID': 'The request that claimed it, as "payments show" prints it: no other claim is released',
};

type Values = OptionValues<typeof options>;

const usage = '--config FILE --environment NAME --login LOGIN --operation NAME';

/** With `payments.once`. */
export const showClaim = command(
  {
    name: 'payments show',
    usage: `${usage} ORDER_ID`,
    about: 'Shows which request claimed an order ID (payments.once), when, and how it ended.',
    options,
    maxPositionals: 1,
  },
  async ({ values, positionals: [orderId] }, io) => {
    const loaded = await loadForClaims(values);
    const order = orderOf(values, orderId, loaded);
    return withClaims(loaded, async ({ find }) => {
      for (const line of linesOf(await find(order))) io.out(line);
      return exitCode.done;
    });
  },
);

/** After a person decided. */
export const releaseClaim = command(
  {
    name: 'payments release',
    usage: `${usage} --request ID ORDER_ID`,
    about:
      'Releases a claimed order ID, so that the same payment may be sent again. Only after the support of the gateway has confirmed that there is no such order, and that none will be made. The audit trail has a record of it, if there is one in a folder.',
    options: releaseOptions,
    maxPositionals: 1,
  },
  async ({ values, positionals: [orderId] }, io) => {
    const loaded = await loadForClaims(values);
    const order = orderOf(values, orderId, loaded);
    const request = required(values.request, '--request ID');
    return withClaims(loaded, async (claims) => {
      const found = await claims.find(order);
      if (found === undefined || requestOf(found) !== request) {
        for (const line of linesOf(found)) io.err(line);
        throw new CliError('the order ID is not claimed by this request. Nothing was released.');
      }
      assertNotUnderWay(found, loaded.config, order);
      await recordRelease(loaded, order, request, io);
      await claims.store.replace(found.name, found.text);
      // One of another request was made since.
      const now = await claims.find(order);
      if (now !== undefined && requestOf(now) === request)
        throw new CliError('the claim has changed meanwhile. Nothing was released.');
      io.out('Released: a payment with this order ID is sent again.');
      return exitCode.done;
    });
  },
);

interface Claims {
  readonly store: RedisStore;
  readonly find: (order: Order) => Promise<Found | undefined>;
}

/** What the store has of an order. */
interface Found {
  readonly name: string;
  readonly text: string;
  /** Absent if the text is none. */
  readonly claim: Claim | undefined;
}

async function loadForClaims(values: Values): Promise<ValidConfig> {
  const file = required(configFileOf(values.config), '--config FILE');
  return validConfig(file, await loadConfig(file, builtInOperations));
}

async function withClaims(
  { config }: ValidConfig,
  work: (claims: Claims) => Promise<number>,
): Promise<number> {
  const { once } = config.payments;
  if (once === undefined) throw new CliError('the configuration has no payments.once', exitCode.usage);
  if (once.store === 'memory')
    throw new CliError('claims in memory are seen by their instance alone, and end with it', exitCode.usage);
  const key = await readOnceKey(once);
  const store = await openClaims(once);
  const find = async (order: Order): Promise<Found | undefined> => {
    const name = claimName(key, order);
    const text = await store.find(name);
    return text === undefined ? undefined : { name, text, claim: parseClaim(text) };
  };
  try {
    return await work({ store, find });
  } catch (error) {
    throw error instanceof StoreUnavailable ? new CliError(error.problem) : error;
  } finally {
    await store.close();
  }
}

/** @throws CliError for what cannot be claimed */
function orderOf(values: Values, orderId: string | undefined, { config }: ValidConfig): Order {
  const environment = required(values.environment, '--environment NAME');
  const login = required(values.login, '--login LOGIN');
  const operation = required(values.operation, '--operation NAME');
  const known = createOperationTable(config).get(environment);
  if (known === undefined) throw new CliError(`unknown environment "${environment}"`, exitCode.usage);
  if (!known.some(({ name, once }) => once && name === operation))
    throw new CliError(`"${operation}" is no operation with once`, exitCode.usage);
  return { environment, login, operation, orderId: required(orderId, 'ORDER_ID') };
}

/** Of a claim without an end: its request may still be sent. Beside its own time, a minute for clocks that differ. */
function assertNotUnderWay({ claim }: Found, { environments }: Config, { environment }: Order): void {
  const { request = 0 } = environments[environment]?.timeouts ?? {};
  if (claim === undefined || claim.end !== undefined || Date.now() > claim.at + request + 60_000) return;
  throw new CliError(
    'the request that claimed it may be under way. Nothing was released; try again in a few minutes.',
  );
}

/** @throws CliError if it is not written */
async function recordRelease(
  { config, digest }: ValidConfig,
  { environment, login, operation, orderId }: Order,
  request: string,
  io: Io,
): Promise<void> {
  if (config.audit?.directory === undefined) return io.err('No audit trail in a folder: keep this output.');
  const nothing = (): void => {};
  const audit = await openAudit(config.audit, {
    // The chain of the instance itself goes on beside it.
    instance: `${hostname()}-release`,
    clock: Date.now,
    monotonic: () => performance.now(),
    digest,
    log: { message: nothing },
    metrics: {
      auditRecordsWritten: nothing,
      auditRecordsLost: nothing,
      auditRecordsOmitted: nothing,
      auditUp: nothing,
    },
  });
  const clientOrderId = clientOrderIdOf([[orderIdNames[0] ?? '', orderId]]);
  const fields = {
    request,
    environment,
    operation,
    login,
    clientOrderId,
    by: userInfo().username,
  };
  const isRecorded = await audit.released(fields);
  await audit.close(2_000);
  if (!isRecorded) throw new CliError('the audit record cannot be written. Nothing was released.');
}

function linesOf(found: Found | undefined): string[] {
  if (found === undefined) return ['not claimed: a payment with this order ID would be sent'];
  const time = found.claim === undefined ? 'unknown' : isoTime(found.claim.at);
  return [`request  ${requestOf(found)}`, `time     ${time}`, `outcome  ${outcomeOf(found)}`];
}

function requestOf({ claim }: Found): string {
  return claim?.requestId ?? 'unknown';
}

function outcomeOf({ claim }: Found): string {
  if (claim === undefined) return 'unknown: what is stored cannot be read';
  if (claim.end === undefined) return 'none yet, or its instance died';
  return `${claim.end.outcome} ${claim.end.status ?? ''}`.trim();
}

function required(value: string | undefined, name: string): string {
  if (value === undefined || value === '') throw new CliError(`${name} is required`, exitCode.usage);
  return value;
}
