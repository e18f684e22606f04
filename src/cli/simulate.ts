import { once } from 'node:events';
import { join } from 'node:path';
import { createDirectorySource, listSubdirectories } from '../keys/directory/source.ts';
import { publicKeyOf } from '../keys/key.ts';
import { type KeySource, ringIn } from '../keys/key-source.ts';
import { type LoginRef, loginRefString } from '../keys/login-ref.ts';
import type { UsableKey } from '../keys/ring.ts';
import type { HandledRequest } from '../simulator/journal.ts';
import { type ListeningSimulator, listenSimulator, listenSimulatorWithAdmin } from '../simulator/listen.ts';
import type { GatewayKeys } from '../simulator/signature.ts';
import { readDemoScenario } from './demo/config.ts';
import { CliError, describeListenError, exitCode, messageOf } from './shared/cli-error.ts';
import { command, type Io, list, type OptionValues, parsed, port } from './shared/command.ts';

const options = {
  'keys DIR':
    "The proxy's key directory: DIR/<environment>/<login>/control_key and private_key.pem. The simulator accepts these keys",
  'scenario FILE': 'Logins, balances, orders and faults (default: config/scenario.yaml, see its comments)',
  'host HOST': parsed('Address to listen on', String, '127.0.0.1'),
  'port PORT': parsed('Port to listen on; 0 picks a free port', port, '8090'),
  'admin-port PORT': parsed(
    'Port of the admin API: journal, reset, faults, keys (docs/simulator.md). Off by default',
    port,
  ),
  'admin-host HOST': parsed(
    'Address of the admin API. Every client that reaches it can change the accepted keys',
    String,
    '127.0.0.1',
  ),
  'admin-allowed-host NAME': list(
    'Host name, besides IP addresses and localhost, that the admin API accepts; may be repeated',
    String,
  ),
};

const spec = {
  name: 'simulate',
  usage: '--keys DIR [--scenario FILE] [--port PORT] [--admin-port PORT]',
  about:
    'Simulates the payment gateway: verifies signatures and responds from a scenario. Every 403 states which check failed.',
  options,
  exitCodes: '0 stopped by a signal, 1 failure, 2 invalid scenario, keys or usage',
};

/** Runs the gateway simulator until SIGTERM or SIGINT. */
export const simulate = command(spec, async ({ values }, io) => {
  const { admin, ...gateway } = await settingsFrom(values, io);
  try {
    const { url, adminUrl, close }: ListeningSimulator & { readonly adminUrl?: string } =
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
    const reason = describeListenError(error, ports);
    throw new CliError(`The gateway simulator cannot listen: ${reason}`, exitCode.failed, true);
  }
});

/** @throws CliError for a missing option, an invalid scenario or keys */
async function settingsFrom(values: OptionValues<typeof options>, io: Io) {
  const { keys: directory, host, port, 'admin-host': adminHost, 'admin-port': adminPort } = values;
  if (directory === undefined) throw new CliError('--keys DIR is required', exitCode.usage);
  const allowedHosts = values['admin-allowed-host'];
  try {
    const { scenario } = await readDemoScenario(values.scenario);
    const keys = await loadSimulatorKeys(directory);
    const keyless = Object.keys(scenario.logins).filter((login) => !keys.has(login));
    for (const login of keyless) io.err(`Login ${login} has no key in ${directory}: its requests get 403.`);
    return {
      scenario,
      keys,
      host,
      port,
      admin: adminPort === undefined ? undefined : { host: adminHost, port: adminPort, allowedHosts },
      clock: Date.now,
      onHandled: ({ time, operation, rejection, status }: HandledRequest) => {
        if (rejection !== undefined) io.out(`${time} ${operation} ${status} ${rejection}`);
      },
    };
  } catch (error) {
    throw new CliError(messageOf(error), exitCode.usage);
  }
}

/**
 * The keys that the simulator accepts: control keys and public keys of the proxy's key directory, by login. If a login
 * is in several environments, all its keys are accepted.
 *
 * @throws Error for an unreadable directory or an unusable key; it names the login
 */
export async function loadSimulatorKeys(directory: string): Promise<ReadonlyMap<string, GatewayKeys>> {
  const source = createDirectorySource({ directory, rotationGracePeriod: 0, now: () => 0 });
  const keys = new Map<string, GatewayKeys>();
  for (const environment of await listSubdirectories(directory)) {
    for (const login of await listSubdirectories(join(directory, environment))) {
      const previous = keys.get(login) ?? { controlKeys: [], publicKeys: [] };
      keys.set(login, (await usableKeys(source, { environment, login })).reduce(withKey, previous));
    }
  }
  return keys;
}

function withKey(keys: GatewayKeys, { key }: UsableKey): GatewayKeys {
  return key.kind === 'control_key'
    ? { ...keys, controlKeys: [...keys.controlKeys, key.secret] }
    : { ...keys, publicKeys: [...keys.publicKeys, publicKeyOf(key)] };
}

async function usableKeys(source: KeySource, login: LoginRef): Promise<UsableKey[]> {
  try {
    return (ringIn(await source.read(login)) ?? []).map((key) => {
      if ('problem' in key) throw new Error(key.problem);
      return key;
    });
  } catch (error) {
    throw new Error(`The keys of ${loginRefString(login)} cannot be used: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
