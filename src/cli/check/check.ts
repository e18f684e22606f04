import { configJsonSchema } from '../../config/json-schema.ts';
import { fromEnvironment, loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { builtInOperations, resolveOperations } from '../../gateway/operations.ts';
import { formatProblems } from '../shared/config-report.ts';
import { demoConfigFile } from '../shared/demo.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { parseOptions } from '../shared/parse-options.ts';
import { checkOnline } from './online.ts';

const usage = `Usage: countersign check [--config FILE] [--no-file-checks]
       countersign check --online --config FILE [--json]
       countersign check --schema

Validates a configuration and reports every problem with its line; certificates have to match their keys and to
be in date.

  --config FILE   the file to check (default: the embedded one)
  --no-file-checks    do not look at the files it names, as on a build machine
  --online        also log in to Vault, read every key that the callers' grants need, and connect to each
                  gateway; a table of what was found
  --json          with --online: print JSON
  --schema        print the JSON Schema of the configuration, for editors
  --help          this text

Exit code: 0 all is well, 1 something failed online, 2 problems or wrong usage.`;

const options = {
  config: { type: 'string' },
  'no-file-checks': { type: 'boolean', default: false },
  online: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  schema: { type: 'boolean', default: false },
} as const;

/** Checks a configuration, without a network unless asked to. Gives the exit code. */
export async function check(argv: readonly string[], io: Io): Promise<number> {
  const given = parseOptions('check', argv, options, usage, io);
  if ('exit' in given) return given.exit;
  const { config, online, json, schema, 'no-file-checks': skipFiles } = given.values;
  if ((online && config === undefined) || (json && !online)) {
    io.err(
      'countersign check: --online needs --config FILE, and --json goes with --online\nSee: countersign check --help',
    );
    return exitCode.usage;
  }
  if (schema) {
    io.out(JSON.stringify(configJsonSchema(), null, 2));
    return exitCode.done;
  }
  const file = config ?? demoConfigFile;
  const lookUp = config === undefined ? forEmbedded : fromEnvironment;
  const read = await loadConfig(file, builtInOperations, {
    lookUp,
    skipFiles,
    certificatesAt: Date.now(),
  });
  if (online && 'config' in read) return checkOnline(read.config, json, io);
  const lines = 'problems' in read ? formatProblems(file, read.problems) : summary(file, read.config);
  for (const line of lines) io.out(line);
  return 'problems' in read ? exitCode.usage : exitCode.done;
}

/** What `serve` sets for the embedded configuration, which needs no more than to be well-formed here. */
function forEmbedded(name: string): string | undefined {
  if (name === 'COUNTERSIGN_KEYS') return 'keys';
  return name === 'COUNTERSIGN_GATEWAY' ? 'http://127.0.0.1:8090' : undefined;
}

function summary(file: string, config: Config): string[] {
  const environments = Object.keys(config.environments);
  const operations = new Set(
    environments.flatMap((name) => resolveOperations(config, name).map((operation) => operation.name)),
  );
  const { keys } = config;
  return [
    `${file}: no problems`,
    `environments  ${environments.join(', ')}`,
    `operations    ${[...operations].join(', ')}`,
    `callers       ${config.callers.map(({ name }) => name).join(', ') || 'none: nothing will be let through'}`,
    `keys          ${keys.source === 'vault' ? `vault at ${keys.vault.address}` : `directory ${keys.directory}`}`,
  ];
}
