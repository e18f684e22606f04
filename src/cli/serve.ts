import { fromEnvironment, readConfig } from '../config/read.ts';
import type { Config } from '../config/shape.ts';
import { builtInOperations } from '../gateway/operations.ts';
import { createLog, type Log } from '../ops/log.ts';
import { embeddedConfig, makeEmbeddedKeys, startEmbeddedGateway } from './embedded.ts';
import { exitCode, type Io } from './io.ts';
import { messageOf, readOptions } from './options.ts';
import { guardProcess } from './process-guard.ts';
import { report } from './report.ts';
import { type Service, startService } from './service.ts';

const usage = `Usage: countersign serve [--config FILE]

Runs the proxy until SIGTERM or SIGINT; SIGHUP reads the configuration again.

  --config FILE  the configuration; without it: a gateway simulator and throw-away keys, all on loopback
  --help         prints this`;

/** Gives the exit code: 0 after a stop in which everything under way was finished. */
export async function serve(argv: readonly string[], io: Io): Promise<number> {
  const read = readOptions('serve', argv, { config: { type: 'string' } }, usage, io);
  if ('exit' in read) return read.exit;
  const stopped = stopSignal();
  return read.values.config === undefined
    ? serveEmbedded(io, stopped)
    : serveFile(read.values.config, fromEnvironment, io, stopped);
}

async function serveEmbedded(io: Io, stopped: Promise<void>): Promise<number> {
  const keys = await makeEmbeddedKeys();
  const lookUp = (name: string): string | undefined => keys.variables[name];
  try {
    const gateway = await startEmbeddedGateway(keys);
    const code = await serveFile(embeddedConfig, lookUp, io, stopped, (service) =>
      welcome(gateway.url, service, io),
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

async function serveFile(
  file: string,
  lookUp: (name: string) => string | undefined,
  io: Io,
  stopped: Promise<void>,
  started: (service: Service) => void = () => {},
): Promise<number> {
  const read = await readConfig(file, builtInOperations, { lookUp });
  if ('problems' in read) {
    for (const line of report(file, read.problems)) io.err(line);
    return exitCode.usage;
  }
  const log = createLog(read.config.log.level);
  guardProcess(log);
  let service: Service;
  try {
    service = await startService(read.config, { log });
  } catch (error) {
    io.err(`Countersign cannot start: ${messageOf(error)}`);
    return exitCode.failed;
  }
  announce(read.config, service, log);
  started(service);
  await untilStopped(stopped, () => readAgain(file, lookUp, service, log));
  log.note('info', 'stopping: finishing what is under way');
  const inTime = await service.stop();
  log.note(inTime ? 'info' : 'error', inTime ? 'stopped' : 'stopped with requests under way');
  return inTime ? exitCode.done : exitCode.failed;
}

/** A file with problems changes nothing. */
async function readAgain(
  file: string,
  lookUp: (name: string) => string | undefined,
  service: Service,
  log: Log,
): Promise<void> {
  try {
    const read = await readConfig(file, builtInOperations, { lookUp });
    if ('problems' in read) {
      for (const line of report(file, read.problems)) log.note('error', line);
      log.note('error', 'configuration not reloaded: the running one stays');
      return;
    }
    await service.reload(read.config);
    log.note('info', 'configuration reloaded');
  } catch (error) {
    log.note('error', `configuration not reloaded: ${messageOf(error)}`);
  }
}

function announce(config: Config, service: Service, log: Log): void {
  log.note('info', 'started', { proxy: service.proxyUrl, admin: service.adminUrl, node: process.version });
  const anonymous = config.callers.filter(({ credentials }) => credentials.some((one) => 'anonymous' in one));
  for (const { name } of anonymous) {
    log.note('warn', 'requests without credentials are accepted', {
      caller: name,
      listeningOn: config.proxy.host,
    });
  }
}

function welcome(gatewayUrl: string, { proxyUrl, adminUrl }: Service, io: Io): void {
  io.out(`
Countersign signs and forwards on ${proxyUrl}
Metrics and health are on         ${adminUrl}/metrics
A simulated gateway listens on    ${gatewayUrl} and verifies every signature

Paste one of these; none of them holds a secret:

  curl -X POST ${proxyUrl}/sandbox/gw/api/v2/get-balance/manager/acme
  curl -d login=acme -d client_orderid=invoice-1 ${proxyUrl}/sandbox/gw/api/v4/status/1234
  curl -d client_orderid=invoice-7 -d amount=12.50 -d currency=EUR ${proxyUrl}/sandbox/gw/api/v4/transfer/1234

With -H 'Accept: application/json' the answers are JSON. Ctrl-C stops everything.
`);
}

/**
 * The first SIGTERM or SIGINT, also one that comes during the start. Whatever comes after it changes nothing: a
 * stop takes a bounded time, and to end at once would lose payments that are under way.
 */
function stopSignal(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  process.on('SIGTERM', resolve).on('SIGINT', resolve);
  return promise;
}

/** Reads again at each SIGHUP, one after the other, until it is time to stop. */
async function untilStopped(stopped: Promise<void>, readAgain: () => Promise<void>): Promise<void> {
  let isStopping = false;
  let reading = Promise.resolve();
  process.on('SIGHUP', () => {
    reading = reading.then(() => (isStopping ? undefined : readAgain()));
  });
  await stopped;
  isStopping = true;
}
