import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { tokenDigest } from '../../auth/bearer-token.ts';
import { type LoadedConfig, loadConfig } from '../../config/load.ts';
import { readOperationsFile } from '../../config/operations-file.ts';
import { payments } from '../../config/schema/payments.ts';
import { withoutPrototype } from '../../config/schema/values.ts';
import type { Config } from '../../config/schema.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { packageRoot } from '../../service/package-info.ts';
import { parseScenario, type Scenario } from '../../simulator/scenario.ts';
import { formatProblems, type Settings, withSettings } from '../shared/config-file.ts';

/** The configuration used without `--config`. */
export const demoConfigFile = fileURLToPath(new URL('config/embedded.yaml', packageRoot));
/** The published operations, which the demo and the simulator serve besides the built-in ones. */
const publishedOperations = fileURLToPath(new URL('config/operations.yaml', packageRoot));
const defaultScenarioFile = fileURLToPath(new URL('config/scenario.yaml', packageRoot));

/** The only environment of that configuration. */
export const demoEnvironment = 'sandbox';

/** What a running demo differs in from its configuration file. */
export interface DemoSettings {
  readonly host: string;
  /** Host names that all ports accept besides IP addresses and `localhost`. */
  readonly allowedHosts: readonly string[];
  readonly overrides: Partial<Settings>;
  /** Milliseconds, in place of `timeouts.request`. */
  readonly requestTimeout?: number | undefined;
  /** Whether `payments.once` is on. */
  readonly paymentsOnce?: boolean;
  readonly scenario: Scenario;
}

/** Values of the variables in config/embedded.yaml. */
interface DemoVariables {
  readonly keyDirectory: string;
  readonly gatewayUrl: string;
}

/**
 * The scenario with its text, since a pipe can be read only once.
 *
 * @throws Error for an unreadable file, or with every problem of an invalid one and its line
 */
export async function readDemoScenario(
  file = defaultScenarioFile,
): Promise<{ scenario: Scenario; scenarioText: string }> {
  const scenarioText = await readFile(file, 'utf8');
  const published = await readOperationsFile(publishedOperations, builtInOperations);
  if ('problems' in published) throw new Error([publishedOperations, ...published.problems].join('\n'));
  const parsed = parseScenario(scenarioText, published.operations);
  if ('data' in parsed) return { scenario: parsed.data, scenarioText };
  throw new Error(['invalid scenario', ...formatProblems(file, parsed.problems)].join('\n'));
}

/** The embedded configuration with the settings of a running demo. */
export async function loadDemoConfig(
  { keyDirectory, gatewayUrl }: DemoVariables,
  settings: DemoSettings,
): Promise<LoadedConfig> {
  const variables = new Map([
    ['COUNTERSIGN_KEYS', keyDirectory],
    ['COUNTERSIGN_GATEWAY', gatewayUrl],
  ]);
  const lookUp = (name: string): string | undefined => variables.get(name);
  const loaded = await loadConfig(demoConfigFile, builtInOperations, { lookUp });
  if ('problems' in loaded) return loaded;
  return { ...loaded, config: runningConfig(loaded.config, settings) };
}

/** The configuration with other ports, and an environment that fits the scenario. */
function runningConfig(
  embedded: Config,
  { host, allowedHosts, overrides, requestTimeout, paymentsOnce = false, scenario }: DemoSettings,
): Config {
  const config = withSettings(embedded, overrides);
  const { [demoEnvironment]: environment } = config.environments;
  if (environment === undefined) throw new TypeError(`${demoConfigFile} has no ${demoEnvironment}`);
  const endpoints = withoutPrototype(endpointsOf(scenario));
  const operations = withoutPrototype(scenario.operations);
  const { tokens, maxInFlight } = scenario.caller;
  const callers = config.callers.map((caller) => ({
    ...caller,
    ...(maxInFlight === undefined ? {} : { maxInFlight }),
    ...(tokens && { credentials: tokens.map((token) => ({ tokenSha256: tokenDigest(token) })) }),
  }));
  const { connect, request } = environment.timeouts;
  const limit = requestTimeout ?? request;
  const timeouts = { connect: Math.min(connect, limit), request: limit };
  return {
    ...config,
    callers,
    payments: payments.parse(paymentsOnce ? { once: { store: 'memory' } } : {}),
    proxy: { ...config.proxy, host, allowAnonymous: true, allowedHosts: [...allowedHosts] },
    admin: { ...config.admin, host, allowedHosts: [...allowedHosts] },
    environments: {
      [demoEnvironment]: { ...environment, product: scenario.product, timeouts, endpoints, operations },
    },
  };
}

/** Maps each endpoint and group of the scenario to the login of its first order, or else to the first login. */
function endpointsOf({ endpoints, groups, orders, logins }: Scenario): Record<string, string> {
  const [first] = Object.keys(logins);
  const members = [...endpoints.map((id) => [id, [id]] as const), ...Object.entries(groups)];
  const entries = members.map(([id, names]) => {
    const login = orders.find(({ endpoint }) => names.includes(endpoint))?.login ?? first;
    return login === undefined ? [] : [[id, login]];
  });
  return Object.fromEntries(entries.flat());
}
