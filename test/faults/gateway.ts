import { readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { startBlackHole } from '../support/black-hole.ts';
import { closedPort } from '../support/faulty-gateway.ts';
import type { FaultName, SiteName } from './fault-table.ts';
import { type Expectation, GatewayConnection } from './gateway-connection.ts';
import type { RequestRecord, SurplusBefore } from './ledger.ts';
import { FlappingListener, listen } from './listener.ts';
import { LoopDelay } from './loop-delay.ts';
import { faultOfRetry, indexOf } from './plan.ts';
import { fixedPorts } from './ports.ts';

export interface GatewayOptions {
  readonly seed: number;
  readonly recordOf: (index: number) => RequestRecord | undefined;
  /** Folder of certificates; without one there are no sites with TLS. */
  readonly certificates: string | undefined;
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
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const urls = new Map<SiteName, string>();
  let connections = 0;
  let unreadable = 0;
  const loop = new LoopDelay();
  const hold = (socket: Socket): void => {
    sockets.add(socket.once('close', () => sockets.delete(socket)).on('error', () => {}));
  };
  const add = async (site: SiteName, scheme: string, server: Server): Promise<void> => {
    servers.push(server.on('connection', hold));
    urls.set(site, `${scheme}://127.0.0.1:${await listen(server, 0)}`);
  };
  const reader =
    (refuse: Expectation['refuse'] = () => {}) =>
    (socket: Socket): void => {
      const connection = (connections += 1);
      const seen = (orderId: string, surplus: SurplusBefore | undefined): ReturnType<Expectation['seen']> =>
        note(options, orderId, connection, surplus);
      void new GatewayConnection(socket, {
        seed: options.seed,
        lateBy: () => loop.recent(),
        seen,
        refuse,
        unreadable: () => void (unreadable += 1),
      });
    };
  await add('plain', 'http', createServer(reader()));
  await add(
    'accept-close',
    'http',
    createServer((socket) => void socket.end()),
  );
  await add(
    'accept-reset',
    'http',
    createServer((socket) => void socket.resetAndDestroy()),
  );
  const [flappingPort = 0] = await fixedPorts(1);
  urls.set('refused', `http://127.0.0.1:${closedPort}`);
  const flapping = new FlappingListener(flappingPort, (socket) => {
    hold(socket);
    reader((milliseconds) => flapping.refuse(milliseconds))(socket);
  });
  await flapping.open();
  urls.set('flapping', `http://127.0.0.1:${flappingPort}`);
  const { certificates } = options;
  if (certificates !== undefined) {
    await add('secure', 'https', tlsServer(certificates, 'good', reader()));
    await add('wrong-name', 'https', tlsServer(certificates, 'wrong-name', reader()));
    await add(
      'tls-cut',
      'https',
      createServer((socket) => void socket.once('data', () => socket.destroy())),
    );
  }
  const blackHole = await startBlackHole();
  urls.set('black-hole', `http://127.0.0.1:${blackHole.port}`);
  return {
    urls,
    unreadable: () => unreadable,
    close: async () => {
      loop.stop();
      flapping.close();
      for (const server of servers) server.close();
      for (const socket of sockets) socket.destroy();
      await blackHole.close();
    },
  };
}

function tlsServer(folder: string, name: string, handle: (socket: Socket) => void): Server {
  const read = (ending: string): Buffer => readFileSync(join(folder, `${name}.${ending}`));
  return createTlsServer({ cert: read('crt'), key: read('key') }, handle).on('tlsClientError', () => {});
}

/** Adds the upstream request to the request's record; the first attempt has the fault of the plan. */
function note(
  { seed, recordOf }: GatewayOptions,
  orderId: string,
  connection: number,
  surplus: SurplusBefore | undefined,
): { fault: FaultName; whole: () => void } {
  const record = recordOf(indexOf(orderId) ?? -1);
  if (record === undefined) throw new Error(`no caller has sent ${orderId}`);
  const attempt = record.upstreamRequests.length + 1;
  const fault = attempt === 1 ? record.plan.fault : faultOfRetry(seed, orderId, attempt);
  const upstreamRequest = { connection, attempt, fault, at: performance.now(), whole: false, surplus };
  record.upstreamRequests.push(upstreamRequest);
  return {
    fault,
    whole: () => {
      upstreamRequest.whole = true;
    },
  };
}
