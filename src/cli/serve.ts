import { type LoadedConfig, loadConfig, type ValidConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Logger } from '../observability/logger.ts';
import { type Countersign, startCountersign } from '../service/lifecycle.ts';
import { type OpenLog, openLog } from '../service/open-log.ts';
import { installCrashHandlers } from '../service/shutdown.ts';
import type { Signals } from '../service/signals.ts';
import { nodeVersionFault, unusedProxyVariables, warnOfCoreDumps } from '../service/start-checks.ts';
import { CliError, describeListenError, exitCode, messageOf, withheldMessage } from './shared/cli-error.ts';
import { command } from './shared/command.ts';
import {
  configFileOf,
  formatProblems,
  settingOptions,
  validConfig,
  withSettings,
} from './shared/config-file.ts';

const options = {
  'config FILE': 'Configuration file (COUNTERSIGN_CONFIG)',
  ...settingOptions,
};

const spec = {
  name: 'serve',
  usage: '--config FILE [--port PORT] [--admin-port PORT] [--log-level LEVEL]',
  about:
    'Runs the proxy until SIGTERM or SIGINT. SIGHUP reloads the configuration. An option has precedence over its environment variable (in parentheses), and that over the file.',
  options,
  exitCodes: '0 shut down gracefully, 1 failure or shutdown timeout, 2 invalid configuration or usage',
  describe: withheldMessage,
};

/** Runs the proxy until a signal. */
export const serve = command(spec, async ({ values }, _io, signals) => {
  const file = configFileOf(values.config);
  if (file === undefined)
    throw new CliError('--config FILE is required. Without one: countersign demo', exitCode.usage);
  const load = async (): Promise<LoadedConfig> => {
    const loaded = await loadConfig(file, builtInOperations);
    return 'config' in loaded ? { ...loaded, config: withSettings(loaded.config, values) } : loaded;
  };
  return runService({ file, load }, signals);
});

interface ServiceSource {
  /** Name of the configuration in messages. */
  readonly file: string;
  /** Loads the configuration, at the start and at each SIGHUP. */
  readonly load: () => Promise<LoadedConfig>;
  /** For the demo only: an unknown bearer token is ignored. No configuration can set this. */
  readonly acceptUnknownTokens?: boolean;
  readonly isDemo?: boolean;
  /** Called after the start. */
  readonly onStarted?: (service: Countersign) => void;
}

/** Runs the proxy until a signal. @returns the exit code */
export async function runService(source: ServiceSource, signals: Signals): Promise<number> {
  const loaded = validConfig(source.file, await source.load());
  const opened = openLog(loaded.config.log.level);
  const { log } = opened;
  try {
    const service = await start(loaded, source, opened);
    source.onStarted?.(service);
    logStart(loaded.config, service, log);
    if (!source.isDemo) {
      warnOfUnusedProxy(log);
      // The keys of the demo protect nothing.
      warnOfCoreDumps(log);
    }
    await untilStopped(signals, () => reloadConfig(source, service, log));
    return await shutDown(service, signals, log);
  } finally {
    await opened.flush();
  }
}

async function start(
  loaded: ValidConfig,
  { acceptUnknownTokens = false, isDemo = false }: ServiceSource,
  { log, destination, flush }: OpenLog,
): Promise<Countersign> {
  const guard = installCrashHandlers(log, flush);
  const fault = nodeVersionFault(loaded.config, isDemo, log);
  if (fault !== undefined) throw new CliError(`Countersign does not start: ${fault}.`, exitCode.failed, true);
  try {
    const service = await startCountersign(loaded, { log, logDestination: destination, acceptUnknownTokens });
    service.configLoaded();
    guard.beforeExit(() => service.abort());
    return service;
  } catch (error) {
    const { proxy, admin } = loaded.config;
    const options = new Map([
      [proxy.port, '--port'],
      [admin.port, '--admin-port'],
    ]);
    const reason = describeListenError(error, options, isDemo);
    throw new CliError(`Countersign cannot start: ${reason}`, exitCode.failed, true);
  }
}

/** @returns the exit code */
export async function shutDown(
  service: Pick<Countersign, 'stop'>,
  { skipDelay }: Pick<Signals, 'skipDelay'>,
  log: Logger,
): Promise<number> {
  const finished = await service.stop(skipDelay);
  log.message(
    finished ? 'info' : 'error',
    finished ? 'stopped' : 'shutdown timeout: requests still in flight',
  );
  return finished ? exitCode.done : exitCode.failed;
}

const restartRequired = 'configuration reloaded; some fields require a restart';

/** An invalid file changes nothing. A valid one takes effect, except for the fields that require a restart. */
export async function reloadConfig(
  { file, load }: Pick<ServiceSource, 'file' | 'load'>,
  service: Pick<Countersign, 'reload' | 'configLoaded' | 'reopenAudit'>,
  log: Logger,
): Promise<void> {
  await reopenAudit(service, log);
  try {
    const loaded = await load();
    if ('problems' in loaded) {
      for (const line of formatProblems(file, loaded.problems)) log.message('error', line);
      // By itself, since together they stand in columns.
      throw new Error(formatProblems(file, loaded.problems.slice(0, 1))[0]);
    }
    const fields = (await service.reload(loaded)).join(', ');
    warnOfCallers(loaded.config, log);
    if (fields === '') log.message('info', 'configuration reloaded');
    else log.message('warn', restartRequired, { fields });
    service.configLoaded(fields === '' ? undefined : `${restartRequired}: ${fields}`);
  } catch (error) {
    const problem = `configuration reload failed; keeping the current one: ${messageOf(error)}`;
    log.message('error', problem);
    service.configLoaded(problem);
  }
}

/** First, and whatever the configuration file holds: SIGHUP also begins the next audit file. */
async function reopenAudit(service: Pick<Countersign, 'reopenAudit'>, log: Logger): Promise<void> {
  try {
    await service.reopenAudit();
  } catch (error) {
    log.message('error', `audit key cannot be read again; keeping the current one: ${messageOf(error)}`);
  }
}

function logStart(config: Config, service: Countersign, log: Logger): void {
  log.message('info', 'started', { proxy: service.proxyUrl, admin: service.adminUrl, node: process.version });
  warnOfCallers(config, log);
}

/** Callers that may do more than their grants say, or that anyone can be. */
function warnOfCallers({ callers, proxy }: Config, log: Logger): void {
  for (const { name, credentials, mode } of callers) {
    if (credentials.some((credential) => 'anonymous' in credential)) {
      log.message('warn', 'requests without credentials are accepted', {
        caller: name,
        listeningOn: proxy.host,
      });
    }
    if (mode === 'dry-run') {
      log.message('warn', 'requests that the grants do not allow are let through: mode is dry-run', {
        caller: name,
      });
    }
  }
}

function warnOfUnusedProxy(log: Logger): void {
  const variables = unusedProxyVariables().join(', ');
  if (variables === '') return;
  const message =
    'no HTTP proxy is used: connections to the gateway and to Vault are direct; unset these variables';
  log.message('warn', message, { variables });
}

/** Reloads at each SIGHUP, one reload at a time, until the shutdown. */
export async function untilStopped(
  signals: Pick<Signals, 'stop' | 'onReload'>,
  reload: () => Promise<void>,
): Promise<void> {
  let isStopping = false;
  let reloading = Promise.resolve();
  signals.onReload(() => {
    reloading = reloading.then(() => (isStopping ? undefined : reload()));
  });
  await signals.stop;
  isStopping = true;
}
