import { dirname, join, resolve } from 'node:path';
import { type LoadedConfig, loadConfig } from '../../config/load.ts';
import { configText } from '../../config/print.ts';
import { type Problem, pathText } from '../../config/problem.ts';
import { type Config, configJsonSchema } from '../../config/schema.ts';
import { type EnvLookup, fromEnvironment, placeholder, withNames } from '../../config/variables.ts';
import { builtInOperations, createOperationTable, type OperationTable } from '../../gateway/operations.ts';
import { CliError, exitCode, withheldMessage } from '../shared/cli-error.ts';
import { command, type Io, type OptionValues, optionNames } from '../shared/command.ts';
import { configFileOf, formatProblems, validConfig } from '../shared/config-file.ts';
import { columns } from '../shared/table.ts';
import { loginOptions, lookUpUsed, optionLogin, withLogin } from '../shared/vault-login.ts';
import { checkAgainst } from './against.ts';
import { checkOnline } from './online.ts';

const options = {
  'config FILE': 'Configuration file to check, the same as FILE (COUNTERSIGN_CONFIG)',
  'no-file-checks':
    'For CI: skip the check that referenced files are readable, and values from environment variables that are not set; --against and --print show these by name',
  online:
    'Also log in to Vault, read every key that the grants require, fetch the keys of each JWT issuer, and connect to each gateway and to the store of claims; prints a table of the results',
  print:
    'Print the configuration as YAML, with every default and absolute paths; in place of each secret is "hidden"',
  'against OLD':
    'List what FILE allows and the configuration OLD, with the files beside it, does not: who may be a caller, what each may do, and other values of settings that are no limits, such as URLs, product and CA files',
  json: 'With --online or --against: print JSON',
  ...loginOptions,
  schema: 'Print the JSON Schema of the configuration file, for editors',
};

const spec = {
  name: 'check',
  usage: [
    'FILE [--no-file-checks]',
    '--online FILE [--json] [--token-file FILE]',
    '--print FILE',
    '--against OLD FILE [--json]',
    '--schema',
  ].join('\n'),
  about:
    'Validates a configuration and reports every problem with its line; a notice is not a problem. Certificates must be valid now and match their keys. With a token of your own, the files and credentials of the pod need not exist here.',
  options,
  exitCodes:
    '0 ok, 1 an online check failed, 2 invalid configuration or usage, 3 FILE allows more than OLD, or other settings differ',
  maxPositionals: 1,
  describe: withheldMessage,
};

/** Validates a configuration; uses the network only with `--online`. */
export const check = command(spec, async ({ values, positionals: [argument] }, io) => {
  const file = configFileOf(argument ?? values.config);
  const misuse =
    argument !== undefined && values.config !== undefined
      ? 'name one file, as an argument or with --config'
      : misuseOf(values);
  if (misuse !== undefined) throw new CliError(misuse, exitCode.usage);
  if (values.schema) {
    io.out(JSON.stringify(configJsonSchema(), null, 2));
    return exitCode.done;
  }
  if (file === undefined) throw new CliError('FILE is required', exitCode.usage);
  return checkFile(file, values, io);
});

type Values = OptionValues<typeof options>;

async function checkFile(file: string, values: Values, io: Io): Promise<number> {
  const { online, print, against, json } = values;
  const isPlain = !online && !print && against === undefined;
  const login = optionLogin(values);
  const isElsewhere = login.auth !== undefined;
  const skipFiles = values['no-file-checks'] || isElsewhere;
  const unset: Unset = new Map();
  const maySkip = values['no-file-checks'] && !online;
  const lookUpHere = maySkip ? lookUpOrNote(unset) : fromEnvironment;
  const lookUp = isElsewhere ? lookUpUsed(login) : lookUpHere;
  const options = { lookUp, skipFiles, certificatesAt: Date.now() };
  const loaded = await loadConfig(file, builtInOperations, options);
  const skipped = [...unset.keys()].map((path) => [
    'not checked',
    `${path}, from an environment variable that is not set`,
  ]);
  // Programs read it, so no line is wrapped.
  const summary = (rows: readonly string[][]): string[] => [
    `${file}: no problems`,
    ...columns([...rows, ...skipped], Number.POSITIVE_INFINITY),
  ];
  if ('problems' in loaded) {
    // Of the text in place of a variable.
    const problems = isPlain
      ? loaded.problems.filter(({ path }) => !unset.has(path))
      : withVariables(loaded.problems, unset);
    for (const line of problems.length > 0 ? formatProblems(file, problems) : summary([])) io.out(line);
    return problems.length === 0 ? exitCode.done : exitCode.usage;
  }
  const notices = loaded.notices.length === 0 ? [] : formatProblems(file, loaded.notices, 'notice');
  if (!isPlain) for (const line of notices) io.err(line);
  const operations = createOperationTable(loaded.config);
  if (online) return checkOnline(withLogin(loaded.config, login), operations, json, io);
  const [folder, names] = [dirname(file), namesIn(unset)];
  if (against !== undefined) {
    const before = await loadBefore(against, maySkip);
    return checkAgainst({ config: loaded.config, folder, unset: names }, before, json, io);
  }
  // A path that begins with a variable may be absolute.
  const text = () =>
    withNames(configText(loaded.config), names).replaceAll(` ${join(resolve(folder), '${')}`, () => ' ${');
  const shown = summary(rowsOf(loaded.config, operations)).concat(notices);
  for (const line of print ? [text().trimEnd()] : shown) io.out(line);
  return exitCode.done;
}

/** The configuration to compare with. Of its files only `operationsFile` must exist. */
async function loadBefore(file: string, maySkip: boolean) {
  const unset: Unset = new Map();
  const lookUp = maySkip ? lookUpOrNote(unset) : fromEnvironment;
  const loaded = await loadConfig(file, builtInOperations, { lookUp, skipFiles: true });
  const known: LoadedConfig =
    'problems' in loaded ? { problems: withVariables(loaded.problems, unset) } : loaded;
  return { config: validConfig(file, known).config, folder: dirname(file), unset: namesIn(unset) };
}

/** Names of variables that are not set, by the path of the field. */
type Unset = Map<string, Set<string>>;

const namesIn = (unset: Unset): string[] => [...unset.values()].flatMap((names) => [...names]);

/** A placeholder for a variable that is not set, which is added to `unset`. */
function lookUpOrNote(unset: Unset): EnvLookup {
  return (name, path) => {
    const value = fromEnvironment(name);
    const field = pathText(path);
    if (value === undefined) unset.set(field, (unset.get(field) ?? new Set()).add(name));
    return value ?? placeholder(name);
  };
}

/** A field that the digest does not fit cannot be compared. */
function withVariables(problems: readonly Problem[], unset: Unset): Problem[] {
  return problems.map((problem) => {
    const [name] = unset.get(problem.path) ?? [];
    if (name === undefined) return problem;
    const message = `requires the environment variable ${name}, which is not set: set it to a value that fits`;
    return { ...problem, message };
  });
}

/** What is wrong with the combination of options. */
function misuseOf(values: Values): string | undefined {
  const given = Object.entries(values).flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [name],
  );
  const modes = given.filter((name) => ['online', 'print', 'against', 'schema'].includes(name));
  const [mode = ''] = modes;
  if (modes.length > 1) return `--${modes.join(' and --')} are mutually exclusive`;
  if (values.json && !['online', 'against'].includes(mode)) return '--json requires --online or --against';
  const login = given.find((name) => optionNames(loginOptions).includes(name));
  return login === undefined || values.online ? undefined : `--${login} requires --online`;
}

function rowsOf(config: Config, table: OperationTable): string[][] {
  const operations = new Set([...table.values()].flat().map(({ name }) => name));
  const { keys } = config;
  return [
    ['environments', Object.keys(config.environments).join(', ')],
    ['operations', [...operations].join(', ')],
    ['callers', config.callers.map(({ name }) => name).join(', ') || 'none (all requests will be rejected)'],
    ['keys', keys.source === 'vault' ? `vault at ${keys.vault.address}` : `directory ${keys.directory}`],
  ];
}
