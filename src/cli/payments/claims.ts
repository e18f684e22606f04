import { hostname, userInfo } from 'node:os';
import { clientOrderIdOf } from '../../audit/record-fields.ts';
import { loadConfig, type ValidConfig } from '../../config/load.ts';
import type { Config, OnceConfig } from '../../config/schema.ts';
import { builtInOperations, createOperationTable } from '../../gateway/operations.ts';
import { orderIdNames } from '../../identifiers.ts';
import { type Claim, claimName, claimText, type Order, parseClaim } from '../../once/claim.ts';
import type { RedisStore } from '../../once/redis-store.ts';
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
  ({ values, positionals }, io) =>
    withClaim(values, positionals, async ({ claim }) => {
      for (const line of linesOf(claim)) io.out(line);
      return exitCode.done;
    }),
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
  ({ values, positionals }, io) => {
    const request = required(values.request, '--request ID');
    return withClaim(values, positionals, async ({ loaded, order, name, claim, store }) => {
      if (claim?.requestId !== request) {
        for (const line of linesOf(claim)) io.err(line);
        throw new CliError('the order ID is not claimed by this request. Nothing was released.');
      }
      assertNotUnderWay(claim, loaded.config, order);
      await recordRelease(loaded, order, claim, io);
      await store.replace(name, claimText(claim));
      if ((await store.find(name)) !== undefined)
        throw new CliError('the claim has changed meanwhile. Nothing was released.');
      io.out('Released: a payment with this order ID is sent again.');
      return exitCode.done;
    });
  },
);

interface Found {
  readonly loaded: ValidConfig;
  readonly order: Order;
  /** Of the claim in the store. */
  readonly name: string;
  readonly claim: Claim | undefined;
  readonly store: RedisStore;
}

/** Of a claim without an end: its request may still be sent. Beside its own time, a minute for clocks that differ. */
function assertNotUnderWay({ at, end }: Claim, { environments }: Config, { environment }: Order): void {
  const { request = 0 } = environments[environment]?.timeouts ?? {};
  if (end !== undefined || Date.now() > at + request + 60_000) return;
  throw new CliError(
    'the request that claimed it may be under way. Nothing was released; try again in a few minutes.',
  );
}

async function withClaim(
  values: Values,
  [orderId]: readonly string[],
  work: (found: Found) => Promise<number>,
): Promise<number> {
  const file = required(configFileOf(values.config), '--config FILE');
  const loaded = validConfig(file, await loadConfig(file, builtInOperations));
  const { once } = loaded.config.payments;
  const order = {
    environment: required(values.environment, '--environment NAME'),
    login: required(values.login, '--login LOGIN'),
    operation: required(values.operation, '--operation NAME'),
    orderId: required(orderId, 'ORDER_ID'),
  };
  assertClaimable(once, order, loaded);
  const name = claimName(await readOnceKey(once), order);
  const store = await openClaims(once);
  try {
    const text = await store.find(name);
    const claim = text === undefined ? undefined : parseClaim(text);
    if (text !== undefined && claim === undefined) throw new CliError('what the store has is no claim');
    return await work({ loaded, order, name, claim, store });
  } finally {
    await store.close();
  }
}

function assertClaimable(
  once: OnceConfig | undefined,
  { environment, operation }: Order,
  { config }: ValidConfig,
): asserts once is OnceConfig {
  if (once === undefined) throw new CliError('the configuration has no payments.once', exitCode.usage);
  if (once.store === 'memory')
    throw new CliError('claims in memory are seen by their instance alone, and end with it', exitCode.usage);
  const known = createOperationTable(config).get(environment);
  if (known === undefined) throw new CliError(`unknown environment "${environment}"`, exitCode.usage);
  if (!known.some(({ name, once: isOnce }) => name === operation && isOnce))
    throw new CliError(`"${operation}" is no operation with once`, exitCode.usage);
}

/** @throws CliError if it is not written */
async function recordRelease(
  { config, digest }: ValidConfig,
  { environment, login, operation, orderId }: Order,
  { requestId }: Claim,
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
    request: requestId,
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

function linesOf(claim: Claim | undefined): string[] {
  if (claim === undefined) return ['not claimed: a payment with this order ID would be sent'];
  const { requestId, at, end } = claim;
  const status = end?.status === undefined ? '' : ` ${end.status}`;
  return [
    `request  ${requestId}`,
    `time     ${isoTime(at)}`,
    `outcome  ${end === undefined ? 'none yet, or its instance died' : `${end.outcome}${status}`}`,
  ];
}

function required(value: string | undefined, name: string): string {
  if (value === undefined || value === '') throw new CliError(`${name} is required`, exitCode.usage);
  return value;
}
