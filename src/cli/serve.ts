import type { EnvLookup } from '../config/env-substitution.ts';
import { fromEnvironment, loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Logger } from '../observability/logger.ts';
import { warnOfDescriptorLimit } from '../server/descriptor-limit.ts';
import { type OpenLog, openLog } from '../server/open-log.ts';
import { installCrashHandlers } from '../server/process-safety.ts';
import { type Service, startService } from '../server/service.ts';
import type { Signals } from '../server/signals.ts';
import { errorCode } from '../util/error-code.ts';
import { formatProblems } from './shared/config-report.ts';
import { demoConfigFile, generateDemoKeys, startDemoGateway } from './shared/demo.ts';
import { exitCode, type Io } from './shared/io.ts';
import { messageOf, optionsHelp, parseOptions } from './shared/parse-options.ts';
import {
  configFileOf,
  type Overrides,
  readOverrides,
  settingOptions,
  withOverrides,
} from './shared/settings.ts';

const options = {
  config: {
    type: 'string',
    value: 'FILE',
    description:
      'Configuration file (COUNTERSIGN_CONFIG; default: a demo on loopback with a gateway simulator and throwaway keys)',
  },
  ...settingOptions,
} as const;

const usage = `Usage: countersign serve [--config FILE] [--port PORT] [--admin-port PORT] [--log-level LEVEL]

Runs the proxy until SIGTERM or SIGINT. SIGHUP reloads the configuration. An option has precedence over its
environment variable (in parentheses), and that over the file.

${optionsHelp(options)}

Exit codes: 0 shut down gracefully, 1 failure or shutdown timeout, 2 invalid configuration or usage.`;

/** Runs until a signal. @returns the exit code */
export async function serve(argv: readonly string[], io: Io, signals: Signals): Promise<number> {
  const parsed = parseOptions('serve', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  const read = readOverrides(parsed.values);
  if ('problems' in read) {
    for (const problem of read.problems) io.err(`countersign serve: ${problem}`);
    return exitCode.usage;
  }
  const file = configFileOf(parsed.values.config);
  return file === undefined
    ? serveDemo(read.overrides, io, signals)
    : serveFile({ file, lookUp: fromEnvironment, overrides: read.overrides }, io, signals);
}

/** Where the configuration comes from, at the start and at each reload. */
interface ConfigOrigin {
  readonly file: string;
  readonly lookUp: EnvLookup;
  readonly overrides: Overrides;
}

async function load({ file, lookUp, overrides }: ConfigOrigin): ReturnType<typeof loadConfig> {
  const loaded = await loadConfig(file, builtInOperations, { lookUp });
  return 'config' in loaded ? { config: withOverrides(loaded.config, overrides) } : loaded;
}

async function serveDemo(overrides: Overrides, io: Io, signals: Signals): Promise<number> {
  const keys = await generateDemoKeys().catch(messageOf);
  if (typeof keys === 'string') {
    io.err(keys);
    return exitCode.failed;
  }
  const lookUp = (name: string): string | undefined => keys.variables[name];
  try {
    const gateway = await startDemoGateway(keys);
    const code = await serveFile({ file: demoConfigFile, lookUp, overrides }, io, signals, (service) =>
      welcome(gateway.url, service),
    );
    await gateway.close();
    return code;
  } catch (error) {
    io.err(`The gateway simulator failed: ${messageOf(error)}`);
    return exitCode.failed;
  } finally {
    keys.remove();
  }
}

/** @param greeting printed after the start */
async function serveFile(
  origin: ConfigOrigin,
  io: Io,
  signals: Signals,
  greeting: (service: Service) => string = () => '',
): Promise<number> {
  const loaded = await load(origin);
  if ('problems' in loaded) {
    for (const line of formatProblems(origin.file, loaded.problems)) io.err(line);
    return exitCode.usage;
  }
  const opened = openLog(loaded.config.log.level);
  const { log, destination } = opened;
  try {
    const service = await start(loaded.config, opened, io);
    if (service === undefined) return exitCode.failed;
    logStart(loaded.config, service, log);
    destination.write(greeting(service));
    await untilStopped(signals, () => reloadConfig(origin, service, log));
    return await stop(service, signals, log);
  } finally {
    await opened.flush();
  }
}

async function start(config: Config, opened: OpenLog, io: Io): Promise<Service | undefined> {
  const { log, destination, flush } = opened;
  const guard = installCrashHandlers(log, flush);
  try {
    const service = await startService(config, { log, logDestination: destination });
    service.configLoaded(true);
    guard.beforeExit(() => service.abort());
    return service;
  } catch (error) {
    io.err(`Countersign cannot start: ${messageOf(error)}${portAdvice(error, config)}`);
    return undefined;
  }
}

/** Which option chooses another port, if one is in use. */
function portAdvice(error: unknown, { proxy, admin }: Config): string {
  if (errorCode(error) !== 'EADDRINUSE' || typeof error !== 'object' || error === null) return '';
  if (!('port' in error)) return '';
  const option = error.port === proxy.port ? '--port' : '--admin-port';
  return proxy.port === admin.port
    ? ' The proxy and the admin port need different ports: see --port and --admin-port.'
    : ` The option is ${option}.`;
}

async function stop(service: Service, { skipDelay }: Signals, log: Logger): Promise<number> {
  log.message('info', 'shutting down: draining in-flight requests');
  const finished = await service.stop(skipDelay);
  log.message(
    finished ? 'info' : 'error',
    finished ? 'stopped' : 'shutdown timeout: requests still in flight',
  );
  return finished ? exitCode.done : exitCode.failed;
}

/** An invalid file changes nothing. A valid one takes effect, except for the fields that require a restart. */
async function reloadConfig(origin: ConfigOrigin, service: Service, log: Logger): Promise<void> {
  try {
    const loaded = await load(origin);
    if ('problems' in loaded) {
      for (const line of formatProblems(origin.file, loaded.problems)) log.message('error', line);
      log.message('error', 'configuration reload failed; keeping the current one');
      service.configLoaded(false);
      return;
    }
    const fields = await service.reload(loaded.config);
    service.configLoaded(fields.length === 0);
    if (fields.length === 0) log.message('info', 'configuration reloaded');
    else
      log.message('warn', 'configuration reloaded; some fields require a restart', {
        fields: fields.join(', '),
      });
  } catch (error) {
    service.configLoaded(false);
    log.message('error', `configuration reload failed; keeping the current one: ${messageOf(error)}`);
  }
}

function logStart(config: Config, service: Service, log: Logger): void {
  log.message('info', 'started', { proxy: service.proxyUrl, admin: service.adminUrl, node: process.version });
  warnOfDescriptorLimit(config, log);
  const anonymous = config.callers.filter(({ credentials }) =>
    credentials.some((credential) => 'anonymous' in credential),
  );
  for (const { name } of anonymous) {
    log.message('warn', 'requests without credentials are accepted', {
      caller: name,
      listeningOn: config.proxy.host,
    });
  }
}

function welcome(gatewayUrl: string, { proxyUrl, adminUrl }: Service): string {
  return `
Proxy:              ${proxyUrl}
Metrics and health: ${adminUrl}/metrics
Gateway simulator:  ${gatewayUrl} (verifies every signature)

Try one of these (no secrets needed):

  curl -X POST ${proxyUrl}/sandbox/gw/api/v2/get-balance/manager/acme
  curl -d login=acme -d client_orderid=invoice-1 ${proxyUrl}/sandbox/gw/api/v4/status/1234
  curl -d client_orderid=invoice-7 -d amount=12.50 -d currency=EUR ${proxyUrl}/sandbox/gw/api/v4/transfer/1234

Add -H 'Accept: application/json' for JSON responses. Press Ctrl-C to stop.

`;
}

/** Reloads at each SIGHUP, one reload at a time, until the shutdown. */
async function untilStopped(signals: Signals, reload: () => Promise<void>): Promise<void> {
  let isStopping = false;
  let reloading = Promise.resolve();
  signals.onReload(() => {
    reloading = reloading.then(() => (isStopping ? undefined : reload()));
  });
  await signals.stop;
  isStopping = true;
}
