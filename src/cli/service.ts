import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { Server as TlsServer } from 'node:https';
import { performance } from 'node:perf_hooks';
import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../config/shape.ts';
import { createPrometheus, type Prometheus } from '../ops/prometheus.ts';
import { createOpsApp } from '../ops/server.ts';
import { Admission } from '../proxy/admission.ts';
import { createListener, type Listener, type TlsTexts } from '../proxy/listen.ts';
import { UnderWay } from '../proxy/under-way.ts';
import type { TlsMaterial } from '../tls/material.ts';
import { CertificateFiles, materialOf } from './certificates.ts';
import { LastAnswers } from './last-answers.ts';
import { createNonces } from './nonces.ts';
import { packageVersion } from './package-info.ts';
import { namesOf, type RuntimePorts, startRuntime } from './runtime.ts';

/** The proxy and its operations port, listening. */
export interface Service {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /**
   * Takes another configuration for the requests to come. Addresses stay as they are until a restart.
   *
   * @throws Error for files that cannot be read; the running configuration stays
   */
  reload(config: Config): Promise<void>;
  /** Refuses new requests, finishes those under way, closes. Resolves to whether all were finished in time. */
  stop(): Promise<boolean>;
}

const minute = 60_000;

/** What a test may want to be different. */
export type ServicePorts = Pick<RuntimePorts, 'log'> &
  Partial<Pick<RuntimePorts, 'clock' | 'monotonic' | 'nonce' | 'random'>> & {
    /** Milliseconds between looks at the certificate files. */
    readonly certificatesEvery?: number;
  };

/** @throws Error of `listen`, and of files that cannot be read */
export async function startService(config: Config, given: ServicePorts): Promise<Service> {
  const { meter, ports } = portsOf(config, given);
  const certificates = new CertificateFiles(ports);
  const first = await certificates.prepare(config);
  certificates.use(first);
  let runtime = startRuntime(config, first, ports);
  const answers = new LastAnswers();
  const { server: proxy, renew } = createListener(config.proxy, {
    ...ports,
    handle: (request, response) => {
      answers.add(response);
      runtime.handle(request, response);
    },
    tls: listenerTexts(materialOf(first, { role: 'listener' })),
    dropped: () => meter.connectionDropped(),
    refused: (exchange) => {
      ports.log.exchange(exchange);
      meter.exchangeEnded(exchange);
    },
  });
  const admin = createServer(
    createOpsApp({ page: (open) => meter.page(open), readiness: () => runtime.readiness() }),
  );
  const [proxyUrl, adminUrl] = await listenOn(
    [proxy, config.proxy, config.proxy.tls === undefined ? 'http' : 'https'],
    [admin, config.admin, 'http'],
  ).catch(async (error: unknown) => {
    await runtime.stop();
    throw error;
  });
  const stopLooking = certificates.lookEach(given.certificatesEvery ?? minute, (user, material) => {
    if (user.role === 'listener') renewListener(proxy, renew, material);
    else runtime.useTls(user, material);
  });
  return {
    proxyUrl,
    adminUrl,
    async reload(next) {
      const prepared = await certificates.prepare(next);
      const started = startRuntime(next, prepared, ports, runtime);
      void runtime.stop(started);
      runtime = started;
      meter.reconfigure(namesOf(next));
      certificates.use(prepared);
      renewListener(proxy, renew, materialOf(prepared, { role: 'listener' }));
    },
    stop: async () => {
      stopLooking();
      answers.closeConnections();
      const inTime = await drain(proxy, ports, config.proxy.deadlines.drain);
      await runtime.stop();
      await closed(admin);
      return inTime;
    },
  };
}

function portsOf(config: Config, given: ServicePorts): { meter: Prometheus; ports: RuntimePorts } {
  const version = packageVersion();
  const meter = createPrometheus({ version, ...namesOf(config) });
  const ports = {
    clock: () => Date.now(),
    monotonic: () => performance.now(),
    nonce: createNonces(),
    random: () => Math.random(),
    ...given,
    meter,
    admission: new Admission(),
    underWay: new UnderWay(),
    newRequestId: () => randomUUID(),
    userAgent: `countersign/${version}`,
  };
  return { meter, ports };
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

function renewListener(proxy: Server, renew: Listener['renew'], material: TlsMaterial): void {
  const texts = listenerTexts(material);
  if (proxy instanceof TlsServer && texts !== undefined) renew(texts);
}

function listenerTexts({ cert, key, ca }: TlsMaterial): TlsTexts | undefined {
  if (cert === undefined || key === undefined) return undefined;
  return { cert, key, ...(ca === undefined ? {} : { clientCa: ca }) };
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
