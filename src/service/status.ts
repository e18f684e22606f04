import type { KeySet } from '../auth/jwt/key-set.ts';
import type { Config } from '../config/schema.ts';
import { referenceOf } from '../keys/key.ts';
import type { Login } from '../keys/table.ts';
import type { LoginRedactor } from '../observability/login-redactor.ts';
import type { CertificateInUse } from '../observability/prometheus.ts';
import type { Readiness } from '../observability/readiness.ts';
import type { KeyStatus } from '../observability/status/facts.ts';
import type { StatusRecorder } from '../observability/status/recorder.ts';
import { type Status, withFindings } from '../observability/status/schema.ts';
import type { ConcurrencyLimiter } from '../proxy/limits.ts';
import { isoTime, type MonotonicClock, type WallClock, type WallTimes, wallTimes } from '../util/clock.ts';
import type { KeyServices } from './key-services.ts';
import { packageVersion } from './package-info.ts';

/** Rows of the list; a page with all logins would be neither fast nor readable. */
const maxKeys = 200;

const kinds: readonly KeyStatus['kind'][] = ['control_key', 'private_key'];

export interface StatusSources extends WallClock, MonotonicClock {
  readonly recorder: StatusRecorder;
  readonly limiter: ConcurrencyLimiter;
  /** Removes logins that may not be written. */
  readonly redactor: Pick<LoginRedactor, 'text'>;
  readonly readiness: () => Readiness;
  readonly certificates: { inUse(): readonly CertificateInUse[] };
  /** When the process started. Monotonic, milliseconds. */
  readonly startedAt: number;
  readonly config: Config;
  readonly keys: Pick<KeyServices, 'table' | 'reader'>;
  readonly jwtIssuers: {
    readonly list: readonly {
      readonly name: string;
      readonly keys: Pick<KeySet, 'available' | 'problem'>;
    }[];
  };
}

/** Puts the status together on demand. */
export function createStatus(sources: StatusSources): () => Promise<Status> {
  const { clock, startedAt, recorder, limiter, redactor, readiness, certificates, config, jwtIssuers } =
    sources;
  const shown = wallTimes(sources);
  return async () =>
    withFindings({
      at: isoTime(clock()),
      runbookUrl: config.admin.runbookUrl ?? null,
      health: readiness(),
      environments: Object.entries(config.environments).map(([name, { baseUrl, maxInFlight }]) => ({
        name,
        gatewayHost: new URL(baseUrl).host,
        inFlight: limiter.inFlight(name),
        waiting: limiter.waiting(name) ?? null,
        maxInFlight,
        ...recorder.environment(name),
      })),
      keys: keysInUse(sources, shown),
      callers: config.callers.map(({ name, mode }) => ({ name, mode, ...recorder.caller(name) })),
      certificates: certificates.inUse().map(({ name, environment = null, problem = null, ...one }) => {
        const [from, until] = [isoTime(one.from), isoTime(one.until)];
        return { name, environment, from, until, problem };
      }),
      jwtIssuers: jwtIssuers.list.map(({ name, keys: { available, problem } }) => ({
        name,
        available,
        problem: problem === undefined ? null : redactor.text(problem),
      })),
      keySource: {
        type: config.keys.source,
        address:
          config.keys.source === 'vault' ? new URL(config.keys.vault.address).host : config.keys.directory,
        ...recorder.keySource(),
        cachedKeysExpireAt: cachedKeysExpireAt(sources),
      },
      process: { version: packageVersion(), node: process.version, startedAt: shown(startedAt) },
      ...recorder.facts(),
    });
}

function cachedKeysExpireAt({ keys: { table, reader }, clock }: StatusSources): string | null {
  const left = table.secondsLeft(reader.isFailing);
  return left === undefined ? null : isoTime(clock() + left * 1000);
}

/** One row per login and kind. */
function keysInUse(sources: StatusSources, shown: WallTimes): Status['keys'] {
  const all = [...sources.keys.table.logins()].flatMap((login) =>
    kinds.filter((kind) => login.ring.some((entry) => entry.kind === kind)).map((kind) => ({ login, kind })),
  );
  const list = all.slice(0, maxKeys).map(({ login, kind }) => rowOf(login, kind, sources, shown));
  return { total: all.length, list };
}

function rowOf(login: Login, kind: KeyStatus['kind'], sources: StatusSources, shown: WallTimes): KeyStatus {
  const { recorder, redactor, keys } = sources;
  const { table, reader } = keys;
  const { ref } = login;
  const staleSince = table.staleSince(login, reader.isFailing);
  const { versions, signing } = table.describe(login, kind);
  const supersededAt = versions[0]?.entry.supersededAt;
  const name = redactor.text(ref.login);
  const isExplained = recorder.isExplained(ref.environment, name);
  return {
    environment: ref.environment,
    login: name,
    kind,
    signingVersion: signing?.version ?? null,
    versions: versions.map(({ entry, state }) => ({
      version: entry.version,
      state: state === 'rejected' && entry === signing && isExplained ? 'in-use' : state,
      createdAt: entry.createdAt === undefined ? null : isoTime(entry.createdAt.getTime()),
      fingerprint: 'key' in entry ? (entry.fingerprint ?? null) : null,
      transitKey: 'key' in entry && 'publicKey' in entry.key ? redactor.text(referenceOf(entry.key)) : null,
      problem: 'problem' in entry ? redactor.text(entry.problem) : null,
    })),
    staleSince: shown(staleSince),
    readProblem: staleSince === undefined ? null : (recorder.readProblem(ref) ?? null),
    missingSince: supersededAt === undefined ? null : isoTime(supersededAt.getTime()),
  };
}
