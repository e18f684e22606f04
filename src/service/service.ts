import type { ValidConfig } from '../config/load.ts';
import type { Config, EnvironmentConfig } from '../config/schema.ts';
import { createRoutes } from '../gateway/router.ts';
import type { TlsUser } from '../net/tls-files.ts';
import { computeReadiness, type Readiness } from '../observability/readiness.ts';
import type { TlsPeers } from '../observability/tls-peers.ts';
import { InflightRequests } from '../proxy/inflight-requests.ts';
import { createUpstreamClient, type UpstreamClient } from '../proxy/outbound/upstream-client.ts';
import { createAdmin } from './admin.ts';
import { createApp } from './app.ts';
import { CertificateFiles } from './certificates.ts';
import { createJwtIssuers, type JwtIssuers } from './jwt-issuers.ts';
import { createKeyServices, type KeyServices, sameKeysConfig } from './key-services.ts';
import { loginsIn, type Shared } from './shared.ts';

/** What a service hands over to the next. */
interface Handed {
  readonly certificates: CertificateFiles;
  readonly keys: KeyServices;
  readonly jwtIssuers: JwtIssuers;
}

export type Service = Awaited<ReturnType<typeof buildService>>;

/**
 * Builds everything of a configuration that runs, except the ports. Nothing of it is visible, to clients or in metrics, before
 * it begins.
 *
 * @param previous the service that it replaces: key source and cached keys are handed over if their configuration is the same
 * @throws Error for unreadable files; the previous service is unchanged then
 */
export async function buildService(loaded: ValidConfig, shared: Shared, previous?: Handed) {
  const { config } = loaded;
  const routes = createRoutes(config);
  const certificates = await CertificateFiles.read(config, shared.log, previous?.certificates);
  const applyTracing = await shared.tracing.prepare(config.tracing);
  const inflight = new InflightRequests();
  const upstreams = createUpstreams(config, certificates, inflight, shared.tlsPeers);
  const keys =
    previous !== undefined && sameKeysConfig(previous.keys.config, config.keys)
      ? previous.keys
      : await createKeyServices(config.keys, certificates.materialOf({ role: 'vault' }), shared);
  const jwtIssuers = createJwtIssuers(config, shared, previous?.jwtIssuers);
  const readiness = (): Readiness => readinessOf({ keys, jwtIssuers }, shared);
  const { verify: verifyJwt } = jwtIssuers;
  const renew = ({ role, environment = '' }: TlsUser): void => {
    if (role === 'vault') {
      keys.source.useTls?.(certificates.materialOf({ role }));
      keys.reader.probeNow();
    }
    if (role === 'gateway') upstreams.renew(environment);
  };
  return {
    config,
    handle: {
      listener: createApp(routes, { keys, verifyJwt, upstreams: upstreams.clients, inflight }, shared),
      admin: createAdmin({ config, keys, jwtIssuers, certificates, readiness }, shared),
    },
    certificates,
    keys,
    jwtIssuers,
    /** Its own requests. */
    inflight,
    /** @throws Error if it cannot take the place of the previous one */
    async check(replaced: Handed): Promise<void> {
      if (keys === replaced.keys) return;
      await keys.readInUse(replaced.keys, Object.keys(config.environments));
      // That may have taken a while.
      await certificates.check(renew);
    },
    /**
     * It handles all new requests from now on.
     *
     * @param renewPorts called when certificates of the ports were replaced
     */
    begin(renewPorts: () => void, replaced?: Handed): void {
      shared.redactor.allow(loginsIn(config));
      shared.prometheus.reconfigure(routes);
      shared.recorder.reconfigure(loaded);
      shared.memory.limit = config.proxy.maxBufferedBytes;
      applyTracing();
      if (keys === replaced?.keys) keys.source.useTls?.(certificates.materialOf({ role: 'vault' }));
      else keys.begin(replaced?.keys);
      jwtIssuers.begin();
      certificates.checkEvery(shared.certificateCheckInterval, (user) => {
        renew(user);
        renewPorts();
      });
    },
    /** Ends what none of the others uses. */
    async stop(others: ReadonlySet<Handed>): Promise<void> {
      certificates.stop();
      for (const upstream of upstreams.clients.values()) upstream.drain();
      jwtIssuers.stop();
      if (!Array.from(others).some((other) => other.keys === keys)) await keys.stop();
    },
  };
}

/** A client for the gateway of each environment. */
function createUpstreams(
  { environments }: Config,
  certificates: CertificateFiles,
  inflight: InflightRequests,
  tlsPeers: TlsPeers,
) {
  const clients = new Map<string, UpstreamClient>();
  const connect = (environment: string, settings: EnvironmentConfig): void => {
    const material = certificates.materialOf({ role: 'gateway', environment });
    const observer = tlsPeers.servers({ role: 'gateway', environment });
    clients.set(environment, createUpstreamClient(settings, material, inflight, observer));
  };
  for (const [environment, settings] of Object.entries(environments)) connect(environment, settings);
  return {
    clients,
    /** Uses other certificates for new requests. */
    renew(environment: string): void {
      clients.get(environment)?.drain();
      const settings = environments[environment];
      if (settings !== undefined) connect(environment, settings);
    },
  };
}

function readinessOf({ keys, jwtIssuers }: Pick<Handed, 'keys' | 'jwtIssuers'>, shared: Shared): Readiness {
  return computeReadiness({
    draining: shared.isDraining(),
    keySourceReady: keys.source.ready(),
    auditUnavailable: shared.audit?.isUnavailable() ?? false,
    keysCached: keys.table.hasKeys(),
    jwtKeysAvailable: jwtIssuers.available(),
    ...shared.logState(),
  });
}
