import { readFile } from 'node:fs/promises';
import { type ListenOptions, listenSimulator } from '../simulator/listen.ts';
import { loadScenario } from '../simulator/scenario.ts';
import { packageRoot } from '../util/package-info.ts';
import { exitCode, type Io } from './shared/io.ts';
import { messageOf, parseOptions } from './shared/parse-options.ts';
import { loadSimulatorKeys } from './shared/simulator-keys.ts';

const usage = `Usage: countersign simulate --keys DIR [--scenario FILE] [--host HOST] [--port PORT]

Plays the payment gateway: verifies signatures and answers from a scenario. Each 403 says which check failed.

  --keys DIR       the proxy's key directory, DIR/<environment>/<login>/control_key and private_key.pem;
                   what these keys sign is accepted
  --scenario FILE  logins, balances, orders and faults (default: config/scenario.yaml, which explains itself)
  --host HOST      address to listen on (default: 127.0.0.1)
  --port PORT      port to listen on, 0 for a free one (default: 8090)
  --help           prints this`;

/** The one that comes with Countersign. */
const defaultScenario = new URL('config/scenario.yaml', packageRoot);

const options = {
  keys: { type: 'string' },
  scenario: { type: 'string' },
  host: { type: 'string', default: '127.0.0.1' },
  port: { type: 'string', default: '8090' },
} as const;

/** Runs the gateway simulator until SIGTERM or SIGINT. Gives the exit code. */
export async function simulate(argv: readonly string[], io: Io): Promise<number> {
  const read = parseOptions('simulate', argv, options, usage, io);
  if ('exit' in read) return read.exit;
  let listening: ListenOptions;
  try {
    listening = await listenOptions(read.values, io);
  } catch (error) {
    io.err(`countersign simulate: ${messageOf(error)}`);
    return exitCode.usage;
  }
  return run(listening, io);
}

async function run(options: ListenOptions, io: Io): Promise<number> {
  try {
    const listening = await listenSimulator(options);
    io.out(`The gateway simulator listens on ${listening.url}/${options.scenario.product}`);
    await untilStopped();
    await listening.close();
    return exitCode.done;
  } catch (error) {
    io.err(`The simulator cannot listen: ${messageOf(error)}`);
    return exitCode.failed;
  }
}

interface Values {
  readonly keys?: string;
  readonly scenario?: string;
  readonly host: string;
  readonly port: string;
}

/** @throws Error about arguments, scenario or keys. */
async function listenOptions(values: Values, io: Io): Promise<ListenOptions> {
  if (values.keys === undefined) throw new Error('--keys is missing; see countersign simulate --help');
  const port = portFrom(values.port);
  const scenario = loadScenario(await readFile(values.scenario ?? defaultScenario, 'utf8'));
  const keys = await loadSimulatorKeys(values.keys);
  const keyless = Object.keys(scenario.logins).filter((login) => !keys.has(login));
  for (const login of keyless) io.err(`Login ${login} has no key in ${values.keys}: its requests get 403.`);
  return {
    scenario,
    keys,
    host: values.host,
    port,
    clock: Date.now,
    onRejected: (reason, operation) => io.out(`${new Date().toISOString()} ${operation} 403 ${reason}`),
  };
}

function portFrom(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) throw new Error('--port must be 0 to 65535');
  return Number(text);
}

function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGTERM', () => resolve());
    process.once('SIGINT', () => resolve());
  });
}
