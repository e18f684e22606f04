import { beforeEach, expect, it } from '@jest/globals';
import { createTlsPeers, type TlsPeers } from '../../../src/observability/tls-peers.ts';

const minute = 60_000;
const session = { version: 'TLSv1.2', cipher: 'ECDHE-RSA-AES128-GCM-SHA256' };
const newest = { version: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384' };

let now: number;
let lines: object[];
let counted: unknown[][];
let peers: TlsPeers;

beforeEach(() => {
  [now, lines, counted] = [0, [], []];
  peers = createTlsPeers({
    monotonic: () => now,
    log: {
      message: (level, msg, fields) => void lines.push({ level, msg, ...fields }),
      handshakeFailed: (failure) => void lines.push({ msg: 'sampled', ...failure }),
    },
    metrics: {
      tlsConnected: (...event) => void counted.push(event),
      tlsFailed: (...event) => void counted.push(event),
    },
  });
});

it('each new combination of version, suite and old client has one line, and each connection is counted', () => {
  const observer = peers.clients('listener');
  for (const peer of ['10.0.0.1', '10.0.0.2', '10.0.0.1']) observer.connected({ ...session, peer });
  // They use up nothing of the limit.
  for (let nth = 0; nth < 100; nth += 1) observer.connected({ ...session, peer: '10.0.0.1' });
  for (const peer of ['10.0.0.3', '10.0.0.4']) observer.connected({ ...newest, peer });
  const line = { level: 'info', msg: 'first TLS connection of this kind', role: 'listener' };
  expect(lines).toEqual([
    { ...line, ...session, peer: '10.0.0.1' },
    { ...line, ...session, peer: '10.0.0.2' },
    { ...line, ...newest },
  ]);
  expect(counted).toHaveLength(105);
});

it('environments, Vault and ports are apart', () => {
  for (const environment of ['sandbox', 'production'])
    peers.servers({ role: 'gateway', environment }).connected(session);
  peers.servers({ role: 'vault' }).connected(session);
  peers.clients('admin').connected(session);
  expect(lines).toHaveLength(4);
  expect(counted.map(([end]) => end)).toEqual([
    { role: 'gateway', environment: 'sandbox' },
    { role: 'gateway', environment: 'production' },
    { role: 'vault' },
    { role: 'admin' },
  ]);
});

it('ten thousand addresses get a limited number of lines, and a later one its line', () => {
  const observer = peers.clients('listener');
  for (let nth = 0; nth < 10_000; nth += 1)
    observer.connected({ ...session, peer: `10.0.${nth >> 8}.${nth & 255}` });
  expect(lines).toHaveLength(20);
  expect(counted).toHaveLength(10_000);
  now += minute;
  observer.connected({ ...session, peer: '192.0.2.1' });
  expect(lines.at(-1)).toMatchObject({ peer: '192.0.2.1' });
});

it('a failure with a server has a line at once and after five minutes, by what it is about', () => {
  const observer = peers.servers({ role: 'gateway', environment: 'sandbox' });
  const version = { problem: 'version', cause: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' } as const;
  const certificate = { problem: 'certificate', cause: 'CERT_HAS_EXPIRED' } as const;
  for (let nth = 0; nth < 100; nth += 1) observer.failed(nth % 2 === 0 ? version : certificate);
  const line = { level: 'warn', msg: 'TLS handshake failed', role: 'gateway', environment: 'sandbox' };
  expect(lines).toEqual([
    { ...line, ...version },
    { ...line, ...certificate },
  ]);
  now += 5 * minute - 1;
  observer.failed(version);
  expect(lines).toHaveLength(2);
  now += 1;
  observer.failed(version);
  expect(lines).toHaveLength(3);
  expect(counted).toHaveLength(102);
});

it('a failure of a client is left to the limit of lines about unknown clients', () => {
  peers.clients('admin').failed({ problem: 'cipher', cause: 'no-shared-cipher', peer: '10.0.0.1' });
  const failure = { role: 'admin', problem: 'cipher', cause: 'no-shared-cipher', peer: '10.0.0.1' };
  expect(lines).toEqual([{ msg: 'sampled', ...failure }]);
  expect(counted).toEqual([[{ role: 'admin' }, 'cipher']]);
});
