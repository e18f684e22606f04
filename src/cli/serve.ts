import { fromEnvironment, readConfig } from '../config/read.ts';
import type { Config } from '../config/shape.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Log } from '../ops/log.ts';
import { warnOfDescriptorLimit } from './descriptor-limit.ts';
import { embeddedConfig, makeEmbeddedKeys, startEmbeddedGateway } from './embedded.ts';
import { exitCode, type Io } from './io.ts';
import { type OpenLog, openLog } from './open-log.ts';
import { messageOf, readOptions } from './options.ts';
import { guardProcess } from './process-guard.ts';
import { report } from './report.ts';
import { type Service, startService } from './service.ts';
import type { Signals } from './signals.ts';

const usage = `Usage: countersign serve [--config FILE]

Runs the proxy until SIGTERM or SIGINT; SIGHUP reads the configuration again.

  --config FILE  the configuration; without it: a gateway simulator and throw-away keys, all on loopback
  --help         prints this`;

/** Gives the exit code: 0 after a stop in which everything under way was finished. */
export async function serve(argv: readonly string[], io: Io, signals: Signals): Promise<number> {
  const read = readOptions('serve', argv, { config: { type: 'string' } }, usage, io);
  if ('exit' in read) return read.exit;
  return read.values.config === undefined
    ? serveEmbedded(io, signals)
    : serveFile(read.values.config, fromEnvironment, io, signals);
}

async function serveEmbedded(io: Io, signals: Signals): Promise<number> {
  const keys = await makeEmbeddedKeys().catch(messageOf);
  if (typeof keys === 'string') {
    io.err(keys);
    return exitCode.failed;
  }
  const lookUp = (name: string): string | undefined => keys.variables[name];
  try {
    const gateway = await startEmbeddedGateway(keys);
    const code = await serveFile(embeddedConfig, lookUp, io, signals, (service) =>
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
  const read = await readConfig(file, builtInOperations, { lookUp });
  if ('problems' in read) {
    for (const line of report(file, read.problems)) io.err(line);
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
  const guard = guardProcess(log, flush);
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

async function stop(service: Service, { skipDelay }: Signals, log: Log): Promise<number> {
  log.note('info', 'shutting down: requests in flight are finished');
  const finished = await service.stop(skipDelay);
  log.note(finished ? 'info' : 'error', finished ? 'stopped' : 'stopped with requests in flight');
  return finished ? exitCode.done : exitCode.failed;
}

/** A file with problems changes nothing; of a good one all is in effect but what only a restart can change. */
async function readAgain(file: string, lookUp: LookUp, service: Service, log: Log): Promise<void> {
  try {
    const read = await readConfig(file, builtInOperations, { lookUp });
    if ('problems' in read) {
      for (const line of report(file, read.problems)) log.note('error', line);
      log.note('error', 'configuration not reloaded: the running one stays');
      service.configLoaded(false);
      return;
    }
    const fields = await service.reload(read.config);
    service.configLoaded(fields.length === 0);
    if (fields.length === 0) log.note('info', 'configuration reloaded');
    else
      log.note('warn', 'configuration reloaded, but some fields need a restart', {
        fields: fields.join(', '),
      });
  } catch (error) {
    service.configLoaded(false);
    log.note('error', `configuration not reloaded: ${messageOf(error)}`);
  }
}

function announce(config: Config, service: Service, log: Log): void {
  log.note('info', 'started', { proxy: service.proxyUrl, admin: service.adminUrl, node: process.version });
  warnOfDescriptorLimit(config, log);
  const anonymous = config.callers.filter(({ credentials }) => credentials.some((one) => 'anonymous' in one));
  for (const { name } of anonymous) {
    log.note('warn', 'requests without credentials are accepted', {
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
