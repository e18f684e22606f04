import { timeout } from '../../config/schema/values.ts';
import { isLoopback } from '../../config/url.ts';
import { fromEnvironment } from '../../config/variables.ts';
import type { Countersign } from '../../service/lifecycle.ts';
import type { Signals } from '../../service/signals.ts';
import { type ListeningSimulatorWithAdmin, listenSimulatorWithAdmin } from '../../simulator/listen.ts';
import { runService } from '../serve.ts';
import { CliError, describeListenError, exitCode, messageOf } from '../shared/cli-error.ts';
import { command, type Io, list, type OptionValues, parsed, port, type Run } from '../shared/command.ts';
import { settingOptions } from '../shared/config-file.ts';
import { loadSimulatorKeys } from '../simulate.ts';
import { demoConfigFile, demoEnvironment, loadDemoConfig, readDemoScenario } from './config.ts';
import { type DemoKeys, generateDemoKeys } from './keys.ts';
import { announce, hasStatusPage, type RunningDemo, removeStaleReadyFile, usualPorts } from './ready-file.ts';
import { rotateDemoKey } from './rotate.ts';

const options = {
  ...settingOptions,
  'gateway-port PORT': parsed(
    `Port of the gateway simulator (default: ${usualPorts.gateway}, or a free one with --port 0)`,
    port,
  ),
  'gateway-admin-port PORT': parsed(
    `Port of its admin API: journal, reset, faults, keys, see docs/simulator.md (default: ${usualPorts.gatewayAdmin}, or a free one with --port 0)`,
    port,
  ),
  'host HOST': parsed(
    "Address of all ports but the gateway's. Anyone who can reach the admin API can change the simulator's keys",
    String,
    '127.0.0.1',
  ),
  'allow-anonymous': 'Required for a --host that others can reach, such as :: in a container',
  'admin-allowed-host NAME': list(
    'Host name, besides IP addresses and localhost, that the proxy, metrics and the admin API accept, such as that of a container; may be repeated',
    String,
  ),
  'scenario FILE': 'Logins, balances, orders and faults of the gateway (default: config/scenario.yaml)',
  'request-timeout DURATION': parsed(
    'Maximum time for the gateway, such as 500ms or 3s, in place of 30s: a test need not wait for slow-response',
    durationOf,
  ),
  'payments-once':
    'Send each payment once: until the demo ends, a repeated order ID gets 409 duplicate-payment',
  'ready-file FILE': 'JSON with the URLs, written when the demo accepts requests and deleted when it ends',
};

/** As in the configuration. @returns milliseconds */
function durationOf(text: string, option: string): number {
  const found = timeout('30s').safeParse(text);
  if (found.success) return found.data;
  throw new CliError(`${option} ${found.error.issues[0]?.message ?? 'is not valid'}`, exitCode.usage);
}

const spec = {
  name: 'demo',
  usage: ['[options]', 'rotate [options]'].join('\n'),
  about:
    'Runs the proxy with a gateway simulator and throwaway keys until SIGTERM or SIGINT: a test double for the tests of a service. Requests need no credentials; any bearer token is accepted. Ports by default: proxy 8080, status page, metrics and health 9090. "demo rotate" rotates a key of a running demo, to watch on the status page.',
  options,
  exitCodes: '0 shut down gracefully, 1 failure or shutdown timeout, 2 invalid scenario or usage',
};

type Settings = Awaited<ReturnType<typeof settingsFrom>>;

const runDemo = command(spec, async ({ values }, io, signals) => {
  const settings = await settingsFrom(values);
  if (settings.readyFile !== undefined) removeStaleReadyFile(settings.readyFile);
  const keys = await generateDemoKeys(Object.keys(settings.scenario.logins));
  try {
    return await serveDemo(settings, keys, io, signals);
  } finally {
    keys.remove();
  }
});

/** `demo`, or `demo rotate`. */
export const demo: Run = (argv, io, signals) =>
  argv[0] === 'rotate' ? rotateDemoKey(argv.slice(1), io, signals) : runDemo(argv, io, signals);

async function serveDemo(settings: Settings, keys: DemoKeys, io: Io, signals: Signals): Promise<number> {
  const shown = { keyDirectory: keys.directory, pid: process.pid };
  const gateway = await startGateway(settings, keys, shown);
  const { logins, caller } = settings.scenario;
  for (const [login, { keys: state }] of Object.entries(logins)) {
    if (state === 'unavailable') keys.makeUnreadable(login);
  }
  const demo = { ...shown, gatewayUrl: gateway.url, gatewayAdminUrl: gateway.adminUrl };
  let withdraw = (): void => {};
  const onStarted = ({ proxyUrl, adminUrl }: Countersign): void => {
    const running = Object.assign(shown, { ...demo, proxyUrl, adminUrl });
    withdraw = announce(running, settings);
    // Not to standard output, which is the log.
    io.err(welcome(running, settings.isOwnScenario));
  };
  try {
    const source = {
      file: demoConfigFile,
      load: () => loadDemoConfig(demo, settings),
      isDemo: true,
      acceptUnknownTokens: caller.tokens === undefined,
      onStarted,
    };
    return await runService(source, signals);
  } finally {
    await gateway.close();
    withdraw();
  }
}

async function startGateway(
  { scenario, host, allowedHosts, gatewayPort, gatewayAdminPort }: Settings,
  { directory }: DemoKeys,
  demo: object,
): Promise<ListeningSimulatorWithAdmin> {
  const keys = await loadSimulatorKeys(directory);
  try {
    const admin = { host, port: gatewayAdminPort, allowedHosts, demo };
    return await listenSimulatorWithAdmin({ scenario, keys, clock: Date.now, port: gatewayPort, admin });
  } catch (error) {
    const options = new Map([
      [gatewayAdminPort, '--gateway-admin-port'],
      [gatewayPort, '--gateway-port'],
    ]);
    const reason = describeListenError(error, options, true);
    throw new CliError(`Countersign cannot start: ${reason}`, exitCode.failed, true);
  }
}

/** @throws CliError for invalid values or an invalid scenario */
async function settingsFrom(values: OptionValues<typeof options>) {
  const { host, scenario } = values;
  if (!isLoopback(host) && !values['allow-anonymous']) {
    throw new CliError(
      `--host ${host} lets others send requests without credentials: add --allow-anonymous if that is intended`,
      exitCode.usage,
    );
  }
  const isFree = values.port === 0;
  try {
    return {
      host,
      allowedHosts: values['admin-allowed-host'],
      requestTimeout: values['request-timeout'],
      paymentsOnce: values['payments-once'],
      overrides: { ...values, 'admin-port': values['admin-port'] ?? (isFree ? 0 : undefined) },
      gatewayPort: values['gateway-port'] ?? (isFree ? 0 : usualPorts.gateway),
      gatewayAdminPort: values['gateway-admin-port'] ?? (isFree ? 0 : usualPorts.gatewayAdmin),
      ...(await readDemoScenario(scenario)),
      isOwnScenario: scenario !== undefined,
      readyFile: values['ready-file'],
    };
  } catch (error) {
    throw new CliError(messageOf(error), exitCode.usage);
  }
}

/**
 * What the demo prints after its start: the URLs, and commands to paste unless the scenario is the user's own.
 *
 * @param npmPackage whose npm started it: in a checkout `countersign` is not on the path
 */
export function welcome(
  { proxyUrl, adminUrl, gatewayUrl, gatewayAdminUrl }: Omit<RunningDemo, 'keyDirectory' | 'pid'>,
  isOwnScenario: boolean,
  npmPackage = fromEnvironment('npm_package_name'),
): string {
  const program = npmPackage === 'countersign' ? 'npm run -s countersign --' : 'countersign';
  const api = `${proxyUrl}/${demoEnvironment}/gw/api`;
  const examples = [
    '',
    'Try one of these (no secrets needed):',
    '',
    `  curl -X POST ${api}/v2/get-balance/manager/acme`,
    `  curl -d login=acme -d client_orderid=invoice-1 ${api}/v4/status/1234`,
    `  curl -d client_orderid=try-1 -d amount=12.50 -d currency=EUR ${api}/v4/transfer/1234`,
    '',
    "Add -H 'Accept: application/json' for JSON responses.",
  ];
  const rotation = [
    '',
    'Rotate a key, and watch it on the status page:',
    '',
    `  ${program} demo rotate --gateway-admin-url ${gatewayAdminUrl}`,
  ];
  const lines = [
    '',
    `Proxy:              ${proxyUrl}`,
    ...(hasStatusPage({ adminUrl }) ? [`Status page:        ${adminUrl}/`] : []),
    `Metrics and health: ${adminUrl}/metrics`,
    `Gateway simulator:  ${gatewayUrl} (verifies every signature)`,
    `Its admin API:      ${gatewayAdminUrl} (journal of requests, faults, keys)`,
    ...(isOwnScenario ? [] : examples),
    ...(hasStatusPage({ adminUrl }) ? rotation : []),
    '',
    'Press Ctrl-C to stop. Requests in flight are finished first.',
    '',
  ];
  return lines.join('\n');
}
