import { once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it } from '@jest/globals';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { codeOf, formRequest, RawConnection } from '../support/raw-http.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const { balance } = paths;
const starts = harness();

it('connections beyond maxConnections are closed without a response and counted, until another one ends', async () => {
  const edge = await starts.edge({ config: { proxy: { port: 0, maxConnections: 2 } } });
  const statusOver = async (connection: RawConnection): Promise<number> =>
    (await connection.send(formRequest(balance)).response()).status;
  const first = await edge.connect();
  const second = await edge.connect();
  expect([await statusOver(first), await statusOver(second)]).toEqual([200, 200]);
  expect(await (await edge.connect()).ended()).toBe('FIN');
  expect(await edge.metrics()).toMatch(/^countersign_connections_dropped_total 1$/m);
  expect(await statusOver(first)).toBe(200);
  second.close();
  await until(async () => (await statusOver(await edge.connect()).catch(() => undefined)) === 200);
});

const ways = ['plain', 'TLS', 'TLS with a client CA'] as const;
const requires = (way: (typeof ways)[number]) => (way === 'plain' ? describe : describeWith('openssl'));

for (const way of ways) {
  requires(way)(`maxConnectionsPerAddress, ${way}`, () => {
    it('closes further connections of one address without a response, and counts them, until another one ends', async () => {
      const ca = way === 'plain' ? undefined : new Ca(starts.folder().path, 'ca');
      const proxy = { port: 0, ...(ca === undefined ? {} : { tls: tlsOf(ca, way !== 'TLS') }) };
      const edge = await starts.edge({ config: { proxy: { ...proxy, maxConnectionsPerAddress: 2 } } });
      const statusFrom = async (localAddress: string): Promise<number | string> => {
        const connection = await open(edge.url, localAddress, ca).catch(codeOf);
        if (typeof connection === 'string') return connection;
        held.push(connection);
        const response = await connection.send(formRequest(balance)).responseOrEnd();
        return typeof response === 'string' ? response : response.status;
      };
      const held: RawConnection[] = [];
      expect([await statusFrom('127.0.0.2'), await statusFrom('127.0.0.2')]).toEqual([200, 200]);
      expect(await statusFrom('127.0.0.2')).not.toBe(200);
      expect(await statusFrom('127.0.0.3')).toBe(200);
      expect(await edge.metrics()).toMatch(/^countersign_connections_dropped_total 1$/m);
      held[0]?.close();
      await until(async () => (await statusFrom('127.0.0.2')) === 200);
      await edge.reload({ proxy: { ...proxy, maxConnectionsPerAddress: 3 } });
      expect(await statusFrom('127.0.0.2')).toBe(200);
      expect(await statusFrom('127.0.0.2')).not.toBe(200);
      for (const connection of held) connection.close();
    }, 30_000);
  });
}

function tlsOf(ca: Ca, withClientCa: boolean) {
  const { certFile, keyFile } = ca.issue('server');
  return { certFile, keyFile, ...(withClientCa ? { clientCaFile: ca.file } : {}) };
}

/** @throws the error of a connection that is closed before it is established */
async function open(url: string, localAddress: string, ca: Ca | undefined): Promise<RawConnection> {
  const { hostname: host, port } = new URL(url);
  const address = { host, port: Number(port), localAddress };
  const socket = ca === undefined ? connect(address) : connectTls({ ...address, ca: ca.cert });
  await once(socket, ca === undefined ? 'connect' : 'secureConnect');
  return RawConnection.over(socket);
}
