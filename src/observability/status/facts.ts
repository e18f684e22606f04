import { z } from 'zod';
import type { Reason } from '../../errors.ts';
import type { KeyState } from '../../keys/key-state.ts';
import { orderMismatches, type Rejection } from '../../request-context.ts';
import { readinessReasons, readinessWarnings } from '../readiness.ts';

const keyStates = ['in-use', 'waiting', 'rejected', 'replaced', 'unusable'] as const satisfies KeyState[];

const time = z.iso.datetime();
const count = z.int().nonnegative();
const seconds = z.number();
const maybeSeconds = seconds.nullable();
const share = z.number().min(0).max(1);
const text = z.string();
/** `null`: there is none, or it is not known, or it does not apply. */
const maybeText = text.nullable();
const maybeTime = time.nullable();
const maybeShare = share.nullable();
const bool = z.boolean();
const upOrNot = z.strictObject({ up: bool, problem: maybeText }).nullable();

const health = z.strictObject({
  ready: bool.describe('Whether this instance should receive requests, as `/readyz` says.'),
  reasons: z.array(z.enum(readinessReasons)).describe('Why it is not ready.'),
  warnings: z.array(z.enum(readinessWarnings)).describe('Problems that do not make it unready.'),
});

const recentFailures = z.strictObject({
  cause: text.describe('As of a failed request; `rejected`: a 401 or 403 of the gateway.'),
  detail: maybeText.describe(
    'Of the last one: why the gateway was unreachable (`refused`, `dns`, `tls`, `timeout`, `other`, or `proxy-` and what the egress proxy did), the TLS alert of the gateway, its status, the kind of the key, the problem of the key source, or the limit that was reached.',
  ),
  caller: maybeText.describe('If all of these requests have the same; so are operation and login.'),
  operation: maybeText,
  login: maybeText,
  count,
  share: share.describe('Of all requests of the last minute.'),
  since: time.describe('Of the first one, with no minute without any since then.'),
  lastAt: time,
});

const environment = z.strictObject({
  name: text,
  gatewayHost: text.describe('Host, and port unless it is the default, of the base URL.'),
  inFlight: count.describe('Requests to the gateway in flight.'),
  waiting: maybeSeconds.describe('For which requests have been in flight and none has ended; null: none is.'),
  maxInFlight: count,
  requestsPerSecond: z.number().nonnegative().describe('This and what follows is of the last minute.'),
  rejectedShare: maybeShare.describe(
    'Of 401 and 403 of the gateway among the requests that did not fail otherwise; null without those.',
  ),
  failedShare: maybeShare.describe(
    'Of the requests that failed because of the gateway or Countersign, not of the caller; 401 and 403 of the gateway are apart. null without requests.',
  ),
  allFail: bool.describe(
    'Whether requests ended in the last 4 seconds and every one failed, other than by a fault of its caller: 401 and 403 of the gateway too.',
  ),
  failures: z
    .array(recentFailures)
    .describe('These requests, and those with 401 and 403, by cause; none of a clock or block that is over.'),
  logins: z
    .strictObject({
      accepted: count,
      rejected: count,
      rejectedNames: z.array(text).describe('The last five of the rejected.'),
    })
    .describe('By what the gateway said to the last request of each; rejected: 401 or 403.'),
  latency: z
    .strictObject({ p50: seconds, p99: seconds })
    .nullable()
    .describe(
      'Seconds from request to response, at most a tenth too high, without requests that failed by a fault of their caller; null without requests.',
    ),
  clockSkew: maybeSeconds.describe(
    'By which the clock of the gateway was ahead in its last response of the last minute; null: unknown.',
  ),
});

const keyVersion = z.strictObject({
  version: z.int(),
  state: z
    .enum(keyStates)
    .describe(
      '`in-use`: signs payments. `waiting`: newer than the one that the gateway accepts. `rejected`: the gateway rejected it, and neither every login nor with a clock that was off; it may still sign if there is no better one. `replaced`: older, kept for a while. `unusable`: see `problem`.',
    ),
  createdAt: maybeTime,
  fingerprint: maybeText.describe(
    "RSA keys: SHA-256 over the public key's SPKI DER, hex. Control keys: four hex digits that give nothing away.",
  ),
  transitKey: maybeText.describe("`NAME:VERSION` in Vault's Transit engine of a key that does not leave it."),
  problem: maybeText.describe('Why an unusable version cannot be used.'),
});

const key = z.strictObject({
  environment: text,
  login: text,
  kind: z.enum(['control_key', 'private_key']),
  signingVersion: z.int().nullable().describe('Version that signs payments; null if none is usable.'),
  versions: z.array(keyVersion).describe('Newest first.'),
  staleSince: maybeTime.describe('Since when the cached keys could not be read again.'),
  readProblem: maybeText.describe('Why, if that is known.'),
  missingSince: maybeTime.describe(
    'When the newest version, which was deleted, replaced the last one that has this key.',
  ),
});

const caller = z.strictObject({
  name: text,
  mode: z.enum(['enforce', 'dry-run']).describe('`dry-run`: its grants are not enforced.'),
  requests: count.describe('Since the start.'),
  denied: count.describe('Requests since the start that were rejected because no grant allowed them.'),
  limited: count.describe('Requests since the start that got 429 because of its `maxInFlight`.'),
  limitedAt: maybeTime.describe('When the last of them was.'),
  lastSeenAt: maybeTime,
});

const failure = z.strictObject({
  at: time,
  requestId: text,
  caller: maybeText,
  environment: maybeText,
  operation: maybeText,
  login: maybeText.describe('Only one that the caller may use.'),
  orderId: maybeText.describe(
    "The merchant's order ID of a payment whose outcome has to be queried, redacted if it may hold a card number; else null.",
  ),
  statusPath: maybeText.describe(
    'Path of the proxy port to which the query of its status is posted, with `login` and `client_orderid`; null: not known.',
  ),
  status: z.int().nullable().describe('HTTP status of the response; null if none was sent.'),
  outcome: z.enum(['answered', 'not-sent', 'unknown']),
  cause: text.describe(
    "`reason` of Countersign's own errors; of a 401 or 403 of the gateway `current-key`, `other-key` or `clock-skew`; else `gateway-status`.",
  ),
  runbookSection: maybeText.describe('Section of the runbook, such as `#countersign403`.'),
});

export const uncertainPayment = failure.omit({ status: true, cause: true, runbookSection: true });

/** A response about another order than its request. */
const orderMismatch = z.strictObject({
  at: time,
  requestId: text,
  environment: text,
  operation: text,
  login: maybeText,
  field: z.enum(orderMismatches).describe('What differs from the request.'),
});

const certificate = z.strictObject({
  name: text.describe('As the label `certificate` of the metrics.'),
  environment: maybeText,
  from: time,
  until: time,
  problem: maybeText.describe('Why files that replaced its own are not used; null: there are none.'),
});

/** What is known of an instance. Times are ISO 8601 in UTC. */
export const statusFacts = z.strictObject({
  at: time.describe('When this was put together.'),
  runbookUrl: maybeText.describe('`admin.runbookUrl`, to which a `runbookSection` is appended.'),
  health,
  environments: z.array(environment),
  keys: z.strictObject({
    total: count.describe('Keys in use, also those that are not listed.'),
    list: z.array(key).describe('The last used first.'),
  }),
  callers: z.array(caller),
  failures: z
    .array(failure)
    .describe('The last 100 failed requests, newest first; at most 20 of unknown callers.'),
  uncertainPayments: z
    .array(uncertainPayment)
    .describe(
      'Payments of the last hour whose outcome is unknown, or to which the gateway responded with a server error, newest first; at most 1,000 of each environment.',
    ),
  orderMismatches: z
    .array(orderMismatch)
    .describe('Of the last hour, newest first; at most 20 of each environment.'),
  certificates: z.array(certificate),
  jwtIssuers: z.array(
    z.strictObject({
      name: text,
      available: bool.describe('Whether there are keys that may be used.'),
      problem: maybeText.describe('Why the last attempt to fetch its keys failed; else null.'),
    }),
  ),
  audit: upOrNot.describe(
    'Whether the last record could be written; null: no audit trail, or no record yet.',
  ),
  claims: upOrNot.describe('Whether order IDs can be claimed; null: without payments.once.'),
  keySource: z.strictObject({
    type: z.enum(['vault', 'directory']),
    address: text.describe('Host of Vault, and port unless it is the default, or the path of the directory.'),
    state: z
      .enum(['up', 'denied', 'down'])
      .nullable()
      .describe(
        '`up`, `denied` (it responds, and denies reading the keys of some logins in use) or `down`; null before the first read.',
      ),
    since: maybeTime.describe('Since when it has been in this state.'),
    deniedLogins: count.describe('Logins in use whose keys it denied reading when it last responded.'),
    deniedLogin: maybeText.describe('One of them, as `ENVIRONMENT/LOGIN`.'),
    problem: maybeText.describe('Why it is denied or down; else null.'),
    loginsNotFound: count.describe('Logins whose cached keys are used although it does not know them.'),
    loginNotFound: maybeText.describe('One of them, as `ENVIRONMENT/LOGIN`.'),
    cachedKeysExpireAt: maybeTime.describe(
      'When the first keys that cannot be read again are no longer used.',
    ),
  }),
  process: z.strictObject({ version: text, node: text, startedAt: time }),
  config: z.strictObject({
    digest: text.describe(
      'SHA-256 of the configuration file in effect, as `sha256sum` prints it; with an operationsFile, of both, one after the other.',
    ),
    loadedAt: time.describe('When that file was loaded.'),
    problem: maybeText.describe('Why the last reload failed, or what of it requires a restart; else null.'),
  }),
});

export type StatusFacts = z.output<typeof statusFacts>;
export type KeyStatus = z.output<typeof key>;
export type FailedRequest = z.output<typeof failure>;
export type UncertainPayment = z.output<typeof uncertainPayment>;

/** `reason` of our own errors, the cause of a rejection of the gateway, or another status of the gateway. */
export type FailureCause = Reason | Rejection | 'gateway-status';
