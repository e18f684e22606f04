import { parseArgs } from 'node:util';
import type { Problem } from '../config/problem.ts';
import { fromEnvironment, readConfig } from '../config/read.ts';
import { configSchema } from '../config/schema.ts';
import type { Config } from '../config/shape.ts';
import { builtInOperations, operationsOf } from '../gateway/operations.ts';
import { checkOnline } from './check-online.ts';
import { embeddedConfig } from './embedded.ts';
import { exitCode, type Io } from './io.ts';

const help = `Usage: countersign check [--config FILE] [--skip-files]
       countersign check --online --config FILE [--json]
       countersign check --schema

Says everything that is wrong with a configuration, with its line.

  --config FILE   the file to check (default: the embedded one)
  --skip-files    do not look whether the files it names can be read, as on a build machine
  --online        also log in to Vault, read every key that the callers' grants need, and connect to each
                  gateway; a table of what was found
  --json          with --online: print JSON
  --schema        print the JSON Schema of the configuration, for editors
  --help          this text

Exit code: 0 all is well, 1 something failed online, 2 problems or wrong usage.`;

/** Checks a configuration, without a network unless asked to. Gives the exit code. */
export async function check(argv: readonly string[], io: Io): Promise<number> {
  const options = optionsOf(argv);
  if ('wrong' in options) {
    io.err(`${options.wrong}; see countersign check --help`);
    return exitCode.usage;
  }
  if (options.help || options.schema) {
    io.out(options.help ? help : JSON.stringify(configSchema(), null, 2));
    return exitCode.done;
  }
  const file = options.config ?? embeddedConfig;
  const read = await readConfig(file, builtInOperations, {
    lookUp: options.config === undefined ? forEmbedded : fromEnvironment,
    skipFiles: options['skip-files'],
  });
  if (options.online && 'config' in read) return checkOnline(read.config, options.json, io);
  const lines = 'problems' in read ? report(file, read.problems) : summary(file, read.config);
  for (const line of lines) io.out(line);
  return 'problems' in read ? exitCode.usage : exitCode.done;
}

function optionsOf(argv: readonly string[]) {
  try {
    const { values } = parseArgs({
      args: [...argv],
      options: {
        config: { type: 'string' },
        'skip-files': { type: 'boolean', default: false },
        online: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        schema: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.online && values.config === undefined) return { wrong: '--online needs --config FILE' };
    return values.json && !values.online ? { wrong: '--json goes with --online' } : values;
  } catch (error) {
    return { wrong: error instanceof Error ? error.message : String(error) };
  }
}

/** What `serve` sets for the embedded configuration, which needs no more than to be well-formed here. */
function forEmbedded(name: string): string | undefined {
  if (name === 'COUNTERSIGN_KEYS') return 'keys';
  return name === 'COUNTERSIGN_GATEWAY' ? 'http://127.0.0.1:8090' : undefined;
}

export function report(file: string, problems: readonly Problem[]): string[] {
  const places = problems.map(({ line }) => (line === 0 ? `${file}:` : `${file}:${line}:`));
  const width = Math.max(...places.map(({ length }) => length));
  return [
    ...problems.map(({ path, message }, index) =>
      [(places[index] ?? '').padEnd(width), ...(path === '' ? [] : [`${path}:`]), message].join(' '),
    ),
    problems.length === 1 ? '1 problem' : `${problems.length} problems`,
  ];
}

function summary(file: string, config: Config): string[] {
  const environments = Object.keys(config.environments);
  const operations = new Set(
    environments.flatMap((name) => operationsOf(config, name).map((operation) => operation.name)),
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
