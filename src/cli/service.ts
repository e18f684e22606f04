import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { Server as TlsServer } from 'node:https';
import { performance } from 'node:perf_hooks';
import type { Config } from '../config/shape.ts';
import { createAdminServer } from '../ops/admin-listener.ts';
import type { LogDestination } from '../ops/log-destination.ts';
import { sampleRejections } from '../ops/log-sampling.ts';
import { LoginRedactor } from '../ops/login-redactor.ts';
import type { Meter } from '../ops/meter.ts';
import { createPrometheus } from '../ops/prometheus.ts';
import { createOpsApp } from '../ops/server.ts';
import { Admission } from '../proxy/admission.ts';
import { InFlight } from '../proxy/in-flight.ts';
import { createListener, type TlsTexts } from '../proxy/listen.ts';
import { MemoryBudget } from '../proxy/memory-budget.ts';
import { UnderWay } from '../proxy/under-way.ts';
import { createNonces } from './nonces.ts';
import { packageVersion } from './package-info.ts';
import { loginsIn, namesOf, type RuntimePorts, startRuntime } from './runtime.ts';
import { abort, shutDown } from './shutdown.ts';

/** The proxy and its operations port, listening. */
export interface Service {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /** Takes another configuration for the requests to come. Addresses stay as they are until a restart. */
  reload(config: Config): void;
  /**
   * A graceful shutdown. Resolves to whether every request in flight finished in time.
   *
   * @param skipDelay when it resolves, the shutdown delay is over
   */
  stop(skipDelay: Promise<unknown>): Promise<boolean>;
  /**
   * After a defect: accepts nothing more and ends every request in flight at once. Resolves when each has its log
   * line.
   */
  abort(): Promise<void>;
}

/** What a test may want to be different. */
export type ServicePorts = Pick<RuntimePorts, 'log'> &
  Partial<Pick<RuntimePorts, 'clock' | 'monotonic' | 'nonce' | 'random'>> & {
    /** Where the log writes; without it nothing is known of dropped lines. */
    readonly logDestination?: LogDestination;
  };

/** @throws Error of `listen`, and of files that cannot be read */
export async function startService(config: Config, given: ServicePorts): Promise<Service> {
  const redactor = new LoginRedactor(loginsIn(config));
  const meter = redactor.meter(createPrometheus({ version: packageVersion(), ...namesOf(config) }));
  const ports = createPorts(config, given, redactor, meter);
  let runtime = startRuntime(config, ports);
  let draining = false;
  const listener = createListener(config.proxy, {
    ...ports,
    handle: (request, response) => runtime.handle(request, response),
    tls: tlsTexts(config),
    dropped: () => meter.connectionDropped(),
    refused: (exchange) => {
      ports.log.exchange(exchange);
      meter.exchangeEnded(exchange);
    },
  });
  const { maxConnections, allowedHosts } = config.admin;
  const pages = {
    page: (open: boolean) => meter.page(open),
    readiness: () => runtime.readiness(draining),
    allowedHosts,
  };
  const admin = createAdminServer(maxConnections, createOpsApp(pages));
  const [proxyUrl, adminUrl] = await listenOn(
    [listener.server, config.proxy, config.proxy.tls === undefined ? 'http' : 'https'],
    [admin, config.admin, 'http'],
  ).catch((error: unknown) => {
    runtime.stop();
    throw error;
  });
  return {
    proxyUrl,
    adminUrl,
    reload(next) {
      const tls = listener.server instanceof TlsServer ? tlsTexts(next) : undefined;
      redactor.allow(loginsIn(next));
      const started = startRuntime(next, ports, runtime);
      runtime.stop(started);
      runtime = started;
      ports.memory.limit = next.proxy.maxBufferedBytes;
      meter.reconfigure(namesOf(next));
      if (tls !== undefined) listener.renew(tls);
    },
    // The admin port stays open meanwhile: it says that this instance is draining.
    async stop(skipDelay) {
      draining = true;
      const finished = await shutDown({ listener, ...ports, ...config.proxy }, skipDelay);
      runtime.stop();
      await closed(admin);
      return finished;
    },
    async abort() {
      draining = true;
      await abort({ listener, ...ports });
    },
  };
}

/** What stays the same when the configuration is read again. */
function createPorts(
  config: Config,
  { logDestination, ...given }: ServicePorts,
  redactor: LoginRedactor,
  meter: Meter,
): RuntimePorts {
  logDestination?.watch({ dropped: (lines) => meter.logLinesDropped(lines) });
  const monotonic = given.monotonic ?? (() => performance.now());
  const suppressed = (): void => meter.logLineSuppressed();
  return {
    clock: () => Date.now(),
    nonce: createNonces(),
    random: () => Math.random(),
    ...given,
    monotonic,
    log: sampleRejections(redactor.log(given.log), { monotonic, suppressed }),
    redact: redactor.text,
    meter,
    admission: new Admission(),
    memory: new MemoryBudget(config.proxy.maxBufferedBytes),
    underWay: new UnderWay(),
    inFlight: new InFlight(),
    logState: () => logDestination?.state() ?? { logLinesDropped: false, logStalled: false },
    newRequestId: () => randomUUID(),
    userAgent: `countersign/${packageVersion()}`,
  };
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

function tlsTexts({ proxy: { tls } }: Config): TlsTexts | undefined {
  if (tls === undefined) return undefined;
  const read = (file: string): string => readFileSync(file, 'utf8');
  const { certFile, keyFile, clientCaFile } = tls;
  return {
    cert: read(certFile),
    key: read(keyFile),
    ...(clientCaFile === undefined ? {} : { clientCa: read(clientCaFile) }),
  };
}

type Listening = readonly [server: Server, at: { host: string; port: number }, scheme: string];

/** Both or none: a process that cannot do its whole work should not look as if it could. */
async function listenOn(proxy: Listening, admin: Listening): Promise<[proxyUrl: string, adminUrl: string]> {
  const proxyUrl = await listen(...proxy);
  try {
    return [proxyUrl, await listen(...admin)];
  } catch (error) {
    await closed(proxy[0]);
    throw error;
  }
}

async function listen(server: Server, at: { host: string; port: number }, scheme: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(at.port, at.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : at.port;
  return `${scheme}://${at.host.includes(':') ? `[${at.host}]` : at.host}:${port}`;
}
