import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve, sep } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { credentialsOf } from '../../auth/authenticate.ts';
import { decide } from '../../auth/authorize.ts';
import { callersWith } from '../../auth/jwt/verify.ts';
import { referencedFiles } from '../../config/named-files.ts';
import type { CallerConfig, Config } from '../../config/schema.ts';
import { withNames } from '../../config/variables.ts';
import { createOperationTable } from '../../gateway/operations.ts';
import { isMapping } from '../../util/text.ts';
import type { Io } from '../shared/command.ts';
import { table } from '../shared/table.ts';

type Credential = CallerConfig['credentials'][number];

/** What a configuration allows and an earlier one did not. The names are those of `--json`. */
interface Allowed {
  /** Who may be a caller. */
  readonly credentials: readonly { readonly caller: string; readonly credential: Credential }[];
  /** What a caller may do. The login is a pattern, as in a grant. */
  readonly requests: readonly {
    readonly caller: string;
    readonly environment: string;
    readonly operation: string;
    readonly login: string;
  }[];
  /** What both have in common but for its value: whom they trust, where requests go, what an operation is. */
  readonly settings: readonly { readonly setting: string; readonly before: string; readonly now: string }[];
}

/** A configuration, and the folder that its file is in. */
interface Located {
  readonly config: Config;
  readonly folder: string;
  /** Names of variables that are not set, each with its placeholder in the configuration. */
  readonly unset: readonly string[];
}

/** Exit code. */
const allowsMore = 3;

/** Prints what a configuration allows and an earlier one did not. @returns the exit code */
export async function checkAgainst(now: Located, before: Located, json: boolean, io: Io): Promise<number> {
  const more: Allowed = {
    ...allowedMore(now.config, before.config),
    settings: otherSettings(await settingsOf(now), await settingsOf(before)),
  };
  const readable = (text: string) => withNames(text, [...now.unset, ...before.unset]);
  const rowsOf = (entries: readonly object[]): string[][] =>
    entries.map((entry) => Object.values(entry).map((value) => readable(shown(value))));
  const tables = [
    table(['CALLER', 'NEW CREDENTIAL'], rowsOf(more.credentials)),
    table(['CALLER', 'ENVIRONMENT', 'OPERATION', 'LOGIN'], rowsOf(more.requests)),
    table(['SETTING', 'BEFORE', 'NOW'], rowsOf(more.settings)),
  ].filter((lines) => lines.length > 1);
  const lines = tables.length === 0 ? ['allows nothing more'] : tables.flat();
  for (const line of json ? [readable(JSON.stringify(more, null, 2))] : lines) io.out(line);
  return tables.length === 0 ? 0 : allowsMore;
}

/** Decided by what authenticates and authorizes requests. */
export function allowedMore(now: Config, before: Config): Omit<Allowed, 'settings'> {
  const [operations, earlierOperations] = [createOperationTable(now), createOperationTable(before)];
  const pairs = now.callers.map((caller) => ({
    caller,
    earlier: before.callers.filter(({ name }) => name === caller.name),
  }));
  return {
    credentials: pairs.flatMap(({ caller: { name: caller, credentials }, earlier }) =>
      credentials
        .filter((credential) => !isCredentialOf(earlier, credential))
        .map((credential) => ({ caller, credential })),
    ),
    requests: pairs.flatMap(({ caller, earlier }) =>
      [...operations].flatMap(([environment, own]) =>
        own.flatMap(({ name: operation }) => {
          const existed = earlierOperations.get(environment)?.some(({ name }) => name === operation);
          const isAllowed = (one: CallerConfig, login: string) =>
            decide(one, { environment, operation, login }) !== 'denied';
          return patternsOf(caller)
            .filter((login) => isAllowed(caller, login))
            .filter((login) => existed !== true || !earlier.some((one) => isAllowed(one, login)))
            .map((login) => ({ caller: caller.name, environment, operation, login }));
        }),
      ),
    ),
  };
}

/** A prefix stands for every claim that begins with it. */
function isCredentialOf(earlier: readonly CallerConfig[], credential: Credential): boolean {
  if ('jwt' in credential) {
    const { issuer, subject: sub = '*', claims } = credential.jwt;
    return callersWith(credentialsOf(earlier, 'jwt'), issuer, { ...claims, sub }).size > 0;
  }
  return earlier.some(({ credentials }) => credentials.some((one) => isDeepStrictEqual(one, credential)));
}

/** A dry run allows all logins. */
function patternsOf({ mode, allow }: CallerConfig): string[] {
  return [...new Set([...(mode === 'dry-run' ? ['*'] : []), ...allow.flatMap(({ logins }) => logins)])];
}

/** Settings that have another value, or that only one configuration has. Numbers are limits, and do not count. */
function otherSettings(now: unknown, before: unknown, path = ''): Allowed['settings'] {
  if (isDeepStrictEqual(now, before) || [now, before].some((value) => typeof value === 'number')) return [];
  if (!isMapping(now) || !isMapping(before))
    return [{ setting: path, before: shown(before), now: shown(now) }];
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names]
    .filter((name) => !named.test(path) || (Object.hasOwn(now, name) && Object.hasOwn(before, name)))
    .filter((name) => !path.endsWith('.endpoints') || Object.hasOwn(before, name))
    .flatMap((name) => otherSettings(now[name], before[name], path === '' ? name : `${path}.${name}`));
}

/** Of these, one that only one configuration has is nothing before a caller may use it. */
const named = /^(environments(\.[^.]+\.operations)?|jwtIssuers)$/;

function shown(value: unknown): string {
  if (value === undefined) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What decides whom a configuration trusts, where requests go, and what an operation is. */
async function settingsOf({ config, folder }: Located): Promise<object> {
  const { proxy, jwtIssuers, keys, payments } = config;
  const operations = createOperationTable(config);
  const environments = Object.entries(config.environments).map(([name, own]) => {
    const table = operations.get(name)?.map((one) => [one.name, { ...one, routes: undefined }] as const);
    return [name, { ...own, operations: Object.fromEntries(table ?? []) }] as const;
  });
  const settings = structuredClone({
    proxy,
    jwtIssuers,
    keys,
    payments,
    environments: Object.fromEntries(environments),
  });
  const own = `${resolve(folder)}${sep}`;
  const nameOf = (file: string) => (file.startsWith(own) ? file.slice(own.length) : file);
  for (const { part, field, file } of referencedFiles(settings)) {
    const content = isPublic.test(field) ? await readFile(file).catch(() => undefined) : undefined;
    const text = content === undefined ? nameOf(file) : `SHA-256 ${hash('sha256', content)}`;
    Object.assign(part, { [field]: text });
  }
  if (settings.keys.source === 'directory') settings.keys.directory = nameOf(settings.keys.directory);
  return settings;
}

/** Files that say whom to trust: CAs and the keys of issuers. The others are Countersign's own. */
const isPublic = /^(caFile|clientCaFile|file)$/;
