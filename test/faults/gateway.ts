import type { Socket } from 'node:net';
import { startBlackHole } from '../support/black-hole.ts';
import { closedUrl, startTcpServer } from '../support/faulty-gateway.ts';
import type { Ca, Issued } from '../support/stub-vault/certificates.ts';
import type { FaultyEgress } from './egress.ts';
import type { FaultName, SiteName } from './fault-table.ts';
import { type Expectation, GatewayConnection } from './gateway-connection.ts';
import type { RequestRecord, SurplusBefore, UpstreamRequest } from './ledger.ts';
import { FlappingListener } from './listener.ts';
import { LoopDelay } from './loop-delay.ts';
import { faultOfRetry, indexOf } from './plan.ts';
import { fixedPorts } from './ports.ts';

interface GatewayOptions {
  readonly seed: number;
  readonly recordOf: (index: number) => RequestRecord | undefined;
  /** Signs the certificates; without one there are no sites with TLS. */
  readonly ca: Ca | undefined;
  /** In front of the gateway; each address is https then. */
  readonly egress?: FaultyEgress | undefined;
}

export interface FaultGateway {
  /** Base URL of each site. */
  readonly urls: ReadonlyMap<SiteName, string>;
  /** Connections with bytes in which no order id could be read. */
  readonly unreadable: () => number;
  readonly close: () => Promise<void>;
}

/** The gateway of all environments, one port each, that fails as the plan of each request says. */
export async function startFaultGateway(options: GatewayOptions): Promise<FaultGateway> {
  const parts: { close(): unknown }[] = [];
  const urls = new Map<SiteName, string>();
  let connections = 0;
  let unreadable = 0;
  const loop = new LoopDelay();
  const add = async (site: SiteName, handle: (socket: Socket) => void, tls?: Issued): Promise<void> => {
    const server = await startTcpServer(handle, tls);
    parts.push(server);
    urls.set(site, server.url);
  };
  const reader =
    (refuse: Expectation['refuse'] = () => {}) =>
    (socket: Socket): void => {
      const connection = (connections += 1);
      const tunnel = options.egress?.tunnelOf(socket);
      const seen = (orderId: string, surplus: SurplusBefore | undefined): ReturnType<Expectation['seen']> =>
        note(options, orderId, { connection, surplus, isCut: () => tunnel?.cut ?? false });
      void new GatewayConnection(socket, {
        seed: options.seed,
        lateBy: () => loop.recent(),
        seen,
        refuse,
        unreadable: () => void (unreadable += 1),
      });
    };
  const { ca, egress } = options;
  const tlsOnly = egress !== undefined;
  const own = tlsOnly ? ca?.issue('plain') : undefined;
  const addressOf = (url: string): string => (tlsOnly ? url.replace('http:', 'https:') : url);
  await add('plain', reader(), own);
  await add('accept-close', (socket) => void socket.end());
  await add('accept-reset', (socket) => void socket.resetAndDestroy());
  const [flappingPort = 0] = await fixedPorts(1);
  urls.set('refused', addressOf(closedUrl));
  const flapping = new FlappingListener(
    flappingPort,
    (socket) => reader((milliseconds) => flapping.refuse(milliseconds))(socket),
    own,
  );
  await flapping.open();
  urls.set('flapping', addressOf(`http://127.0.0.1:${flappingPort}`));
  if (ca !== undefined) {
    await add('secure', reader(), ca.issue('good'));
    await add('wrong-name', reader(), ca.issue('wrong-name', { names: 'DNS:gateway.example' }));
    await add('tls-cut', (socket) => void socket.once('data', () => socket.destroy()));
    urls.set('tls-cut', String(urls.get('tls-cut')).replace('http:', 'https:'));
  }
  const blackHole = await startBlackHole();
  urls.set('black-hole', addressOf(`http://127.0.0.1:${blackHole.port}`));
  for (const site of ['accept-close', 'accept-reset'] as const)
    urls.set(site, addressOf(String(urls.get(site))));
  return {
    urls,
    unreadable: () => unreadable,
    close: async () => {
      loop.stop();
      await Promise.all([flapping, blackHole, ...parts].map((part) => part.close()));
    },
  };
}

/** Adds the upstream request to the request's record; the first attempt has the fault of the plan. */
function note(
  { seed, recordOf }: GatewayOptions,
  orderId: string,
  of: Pick<UpstreamRequest, 'connection' | 'surplus' | 'isCut'>,
): { fault: FaultName; whole: () => void } {
  const record = recordOf(indexOf(orderId) ?? -1);
  if (record === undefined) throw new Error(`no caller has sent ${orderId}`);
  const attempt = record.upstreamRequests.length + 1;
  const fault = attempt === 1 ? record.plan.fault : faultOfRetry(seed, orderId, attempt);
  const upstreamRequest = { ...of, attempt, fault, at: performance.now(), whole: false };
  record.upstreamRequests.push(upstreamRequest);
  return {
    fault,
    whole: () => {
      upstreamRequest.whole = true;
    },
  };
}
