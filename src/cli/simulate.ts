import { once } from 'node:events';
import { listenSimulatorWithAdmin } from '../simulator/admin/listen.ts';
import { type ListeningSimulator, listenSimulator } from '../simulator/listen.ts';
import { readDemoScenario } from './demo/config.ts';
import { describeListenError, messageOf } from './shared/cli-error.ts';
import { exitCode, type Io } from './shared/io.ts';
import { type OptionValues, optionsHelp, parseOptions, portFrom } from './shared/parse-options.ts';
import { loadSimulatorKeys } from './shared/simulator-keys.ts';

const optionTable = {
  keys: {
    type: 'string',
    value: 'DIR',
    description:
      "The proxy's key directory: DIR/<environment>/<login>/control_key and private_key.pem. The simulator accepts these keys",
  },
  scenario: {
    type: 'string',
    value: 'FILE',
    description: 'Logins, balances, orders and faults (default: config/scenario.yaml, see its comments)',
  },
  host: { type: 'string', value: 'HOST', default: '127.0.0.1', description: 'Address to listen on' },
  port: {
    type: 'string',
    value: 'PORT',
    default: '8090',
    description: 'Port to listen on; 0 picks a free port',
  },
  'admin-port': {
    type: 'string',
    value: 'PORT',
    description: 'Port of the admin API: journal, reset, faults, keys (docs/simulator.md). Off by default',
  },
  'admin-host': {
    type: 'string',
    value: 'HOST',
    default: '127.0.0.1',
    description: 'Address of the admin API. Every client that reaches it can change the accepted keys',
  },
  'admin-allowed-host': {
    type: 'string',
    value: 'NAME',
    multiple: true,
    description: 'Host name, besides IP addresses and localhost, that the admin API accepts; may be repeated',
  },
} as const;

const usage = `Usage: countersign simulate --keys DIR [--scenario FILE] [--port PORT] [--admin-port PORT]

Simulates the payment gateway: verifies signatures and responds from a scenario. Every 403 states which
check failed.

${optionsHelp(optionTable)}

Exit codes: 0 stopped by a signal, 1 failure, 2 invalid scenario, keys or usage.`;

/** Runs the gateway simulator until SIGTERM or SIGINT. @returns the exit code */
export async function simulate(argv: readonly string[], io: Io): Promise<number> {
  const parsed = parseOptions('simulate', argv, optionTable, usage, io);
  if ('exit' in parsed) return parsed.exit;
  let options: Awaited<ReturnType<typeof optionsFrom>>;
  try {
    options = await optionsFrom(parsed.values, io);
  } catch (error) {
    io.err(`countersign simulate: ${messageOf(error)}`);
    return exitCode.usage;
  }
  const { admin, ...gateway } = options;
  try {
    const { url, adminUrl, close }: ListeningSimulator =
      admin === undefined
        ? await listenSimulator(gateway)
        : await listenSimulatorWithAdmin({ ...gateway, admin });
    io.out(`Gateway simulator: ${url}/${gateway.scenario.product}`);
    if (adminUrl !== undefined) io.out(`Admin API: ${adminUrl}`);
    await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
    await close();
    return exitCode.done;
  } catch (error) {
    const ports = new Map([[gateway.port, '--port']]);
    if (admin !== undefined) ports.set(admin.port, '--admin-port');
    io.err(`The gateway simulator cannot listen: ${describeListenError(error, ports)}`);
    return exitCode.failed;
  }
}

/** @throws Error for invalid options, scenario or keys */
async function optionsFrom(values: OptionValues<typeof optionTable>, io: Io) {
  if (values.keys === undefined) throw new Error('--keys DIR is required\nSee: countersign simulate --help');
  const port = portFrom('--port', values.port);
  const { 'admin-host': host, 'admin-port': adminPort, 'admin-allowed-host': allowedHosts = [] } = values;
  const admin =
    adminPort === undefined ? undefined : { host, port: portFrom('--admin-port', adminPort), allowedHosts };
  const { scenario } = await readDemoScenario(values.scenario);
  const keys = await loadSimulatorKeys(values.keys);
  const keyless = Object.keys(scenario.logins).filter((login) => !keys.has(login));
  for (const login of keyless) io.err(`Login ${login} has no key in ${values.keys}: its requests get 403.`);
  return {
    scenario,
    keys,
    host: values.host,
    port,
    admin,
    clock: Date.now,
    onRejected: (reason: string, operation: string) =>
      io.out(`${new Date().toISOString()} ${operation} 403 ${reason}`),
  };
}
