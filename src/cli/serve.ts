import { fromEnvironment, loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Logger } from '../observability/logger.ts';
import { warnOfDescriptorLimit } from '../server/descriptor-limit.ts';
import { type OpenLog, openLog } from '../server/open-log.ts';
import { installCrashHandlers } from '../server/process-safety.ts';
import { type Service, startService } from '../server/service.ts';
import type { Signals } from '../server/signals.ts';
import { formatProblems } from './shared/config-report.ts';
import { demoConfigFile, generateDemoKeys, startDemoGateway } from './shared/demo.ts';
import { exitCode, type Io } from './shared/io.ts';
import { messageOf, parseOptions } from './shared/parse-options.ts';

const usage = `Usage: countersign serve [--config FILE]

Runs the proxy until SIGTERM or SIGINT; SIGHUP reads the configuration again.

  --config FILE  the configuration; without it: a gateway simulator and throw-away keys, all on loopback
  --help         prints this`;

/** Gives the exit code: 0 after a stop in which everything under way was finished. */
export async function serve(argv: readonly string[], io: Io, signals: Signals): Promise<number> {
  const read = parseOptions('serve', argv, { config: { type: 'string' } }, usage, io);
  if ('exit' in read) return read.exit;
  return read.values.config === undefined
    ? serveEmbedded(io, signals)
    : serveFile(read.values.config, fromEnvironment, io, signals);
}

async function serveEmbedded(io: Io, signals: Signals): Promise<number> {
  const keys = await generateDemoKeys().catch(messageOf);
  if (typeof keys === 'string') {
    io.err(keys);
    return exitCode.failed;
  }
  const lookUp = (name: string): string | undefined => keys.variables[name];
  try {
    const gateway = await startDemoGateway(keys);
    const code = await serveFile(demoConfigFile, lookUp, io, signals, (service) =>
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

/** @param greeting printed once the service has started */
async function serveFile(
  file: string,
  lookUp: LookUp,
  io: Io,
  signals: Signals,
  greeting: (service: Service) => string = () => '',
): Promise<number> {
  const read = await loadConfig(file, builtInOperations, { lookUp });
  if ('problems' in read) {
    for (const line of formatProblems(file, read.problems)) io.err(line);
    return exitCode.usage;
  }
  const opened = openLog(read.config.log.level);
  const { log, destination } = opened;
  try {
    const service = await start(read.config, opened, io);
    if (service === undefined) return exitCode.failed;
    announce(read.config, service, log);
    destination.write(greeting(service));
    await untilStopped(signals, () => readAgain(file, lookUp, service, log));
    return await stop(service, signals, log);
  } finally {
    await opened.flush();
  }
}

type LookUp = (name: string) => string | undefined;

async function start(config: Config, opened: OpenLog, io: Io): Promise<Service | undefined> {
  const { log, destination, flush } = opened;
  const guard = installCrashHandlers(log, flush);
  try {
    const service = await startService(config, { log, logDestination: destination });
    service.configLoaded(true);
    guard.beforeExit(() => service.abort());
    return service;
  } catch (error) {
    io.err(`Countersign cannot start: ${messageOf(error)}`);
    return undefined;
  }
}

async function stop(service: Service, { skipDelay }: Signals, log: Logger): Promise<number> {
  log.message('info', 'shutting down: requests in flight are finished');
  const finished = await service.stop(skipDelay);
  log.message(finished ? 'info' : 'error', finished ? 'stopped' : 'stopped with requests in flight');
  return finished ? exitCode.done : exitCode.failed;
}

/** A file with problems changes nothing; of a good one all is in effect but what only a restart can change. */
async function readAgain(file: string, lookUp: LookUp, service: Service, log: Logger): Promise<void> {
  try {
    const read = await loadConfig(file, builtInOperations, { lookUp });
    if ('problems' in read) {
      for (const line of formatProblems(file, read.problems)) log.message('error', line);
      log.message('error', 'configuration not reloaded: the running one stays');
      service.configLoaded(false);
      return;
    }
    const fields = await service.reload(read.config);
    service.configLoaded(fields.length === 0);
    if (fields.length === 0) log.message('info', 'configuration reloaded');
    else
      log.message('warn', 'configuration reloaded, but some fields need a restart', {
        fields: fields.join(', '),
      });
  } catch (error) {
    service.configLoaded(false);
    log.message('error', `configuration not reloaded: ${messageOf(error)}`);
  }
}

function announce(config: Config, service: Service, log: Logger): void {
  log.message('info', 'started', { proxy: service.proxyUrl, admin: service.adminUrl, node: process.version });
  warnOfDescriptorLimit(config, log);
  const anonymous = config.callers.filter(({ credentials }) => credentials.some((one) => 'anonymous' in one));
  for (const { name } of anonymous) {
    log.message('warn', 'requests without credentials are accepted', {
      caller: name,
      listeningOn: config.proxy.host,
    });
  }
}

function welcome(gatewayUrl: string, { proxyUrl, adminUrl }: Service): string {
  return `
Countersign signs and forwards on ${proxyUrl}
Metrics and health are on         ${adminUrl}/metrics
A simulated gateway listens on    ${gatewayUrl} and verifies every signature

Paste one of these; none of them holds a secret:

  curl -X POST ${proxyUrl}/sandbox/gw/api/v2/get-balance/manager/acme
  curl -d login=acme -d client_orderid=invoice-1 ${proxyUrl}/sandbox/gw/api/v4/status/1234
  curl -d client_orderid=invoice-7 -d amount=12.50 -d currency=EUR ${proxyUrl}/sandbox/gw/api/v4/transfer/1234

With -H 'Accept: application/json' the answers are JSON. Ctrl-C stops everything.

`;
}

/** Reads again at each SIGHUP, one after the other, until it is time to stop. */
async function untilStopped(signals: Signals, readAgain: () => Promise<void>): Promise<void> {
  let isStopping = false;
  let reading = Promise.resolve();
  signals.onReload(() => {
    reading = reading.then(() => (isStopping ? undefined : readAgain()));
  });
  await signals.stop;
  isStopping = true;
}
