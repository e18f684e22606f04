import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { Server as TlsServer } from 'node:https';
import { performance } from 'node:perf_hooks';
import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../config/shape.ts';
import { createAdminServer } from '../ops/admin-listener.ts';
import { LoginRedactor } from '../ops/login-redactor.ts';
import { createPrometheus } from '../ops/prometheus.ts';
import { createOpsApp } from '../ops/server.ts';
import { Admission } from '../proxy/admission.ts';
import { createListener, type TlsTexts } from '../proxy/listen.ts';
import { UnderWay } from '../proxy/under-way.ts';
import { LastAnswers } from './last-answers.ts';
import { createNonces } from './nonces.ts';
import { packageVersion } from './package-info.ts';
import { loginsIn, namesOf, type RuntimePorts, startRuntime } from './runtime.ts';

/** The proxy and its operations port, listening. */
export interface Service {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /** Takes another configuration for the requests to come. Addresses stay as they are until a restart. */
  reload(config: Config): void;
  /** Refuses new requests, finishes those under way, closes. Resolves to whether all were finished in time. */
  stop(): Promise<boolean>;
}

/** What a test may want to be different. */
export type ServicePorts = Pick<RuntimePorts, 'log'> &
  Partial<Pick<RuntimePorts, 'clock' | 'monotonic' | 'nonce' | 'random'>>;

/** @throws Error of `listen`, and of files that cannot be read */
export async function startService(config: Config, given: ServicePorts): Promise<Service> {
  const version = packageVersion();
  const redactor = new LoginRedactor(loginsIn(config));
  const meter = redactor.meter(createPrometheus({ version, ...namesOf(config) }));
  const ports: RuntimePorts = { ...runtimePorts(given, version, redactor), meter };
  let runtime = startRuntime(config, ports);
  const answers = new LastAnswers();
  const { server: proxy, renew } = createListener(config.proxy, {
    ...ports,
    handle: (request, response) => {
      answers.add(response);
      runtime.handle(request, response);
    },
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
    readiness: () => runtime.readiness(),
    allowedHosts,
  };
  const admin = createAdminServer(maxConnections, createOpsApp(pages));
  const [proxyUrl, adminUrl] = await listenOn(
    [proxy, config.proxy, config.proxy.tls === undefined ? 'http' : 'https'],
    [admin, config.admin, 'http'],
  ).catch((error: unknown) => {
    runtime.stop();
    throw error;
  });
  return {
    proxyUrl,
    adminUrl,
    reload(next) {
      const tls = proxy instanceof TlsServer ? tlsTexts(next) : undefined;
      redactor.allow(loginsIn(next));
      const started = startRuntime(next, ports, runtime);
      runtime.stop(started);
      runtime = started;
      meter.reconfigure(namesOf(next));
      if (tls !== undefined) renew(tls);
    },
    stop: async () => {
      answers.closeConnections();
      const inTime = await drain(proxy, ports, config.proxy.deadlines.drain);
      runtime.stop();
      await closed(admin);
      return inTime;
    },
  };
}

/** What stays the same when the configuration is read again, besides the metrics. */
function runtimePorts(
  given: ServicePorts,
  version: string,
  redactor: LoginRedactor,
): Omit<RuntimePorts, 'meter'> {
  return {
    clock: () => Date.now(),
    monotonic: () => performance.now(),
    nonce: createNonces(),
    random: () => Math.random(),
    ...given,
    log: redactor.log(given.log),
    redact: redactor.text,
    admission: new Admission(),
    underWay: new UnderWay(),
    newRequestId: () => randomUUID(),
    userAgent: `countersign/${version}`,
  };
}

/** The operations port stays open meanwhile: whoever asks learns that this instance is draining. */
async function drain(
  proxy: Server,
  { admission, underWay }: Pick<RuntimePorts, 'admission' | 'underWay'>,
  deadline: number,
): Promise<boolean> {
  const done = Promise.all([admission.drain(), closed(proxy)]).then(() => true);
  const late = new AbortController();
  const inTime = await Promise.race([done, wait(deadline, false, { signal: late.signal })]);
  late.abort();
  if (inTime) return true;
  underWay.abandon();
  // A turn of the event loop, in which those who wait for a reply break their answers off.
  await setImmediate();
  proxy.closeAllConnections();
  return false;
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
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
