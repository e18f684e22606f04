import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { InboundServer } from '../../../src/proxy/inbound/server.ts';
import type { ServerTls } from '../../../src/proxy/inbound/server-tls.ts';
import { adminLimits } from '../../../src/service/admin.ts';
import { Port } from '../../../src/service/port.ts';
import { Folder } from '../../support/folder.ts';
import { RawConnection } from '../../support/raw-http.ts';
import { describeWith } from '../../support/requires.ts';
import { Ca } from '../../support/stub-vault/certificates.ts';

const loopback = { host: '127.0.0.1', port: 0 };
const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const body = Buffer.alloc(8_000_000, 'x');

let port: Port;
beforeEach(() => {
  port = new Port({
    createServer: (limits, tls) =>
      new InboundServer(limits, {
        handle: (_request, response) => void response.end(body),
        requestRejected: () => {},
        monotonic: performance.now.bind(performance),
        newRequestId: () => 'id',
        tls,
        tlsObserver: { connected() {}, failed() {} },
      }),
    dropped: () => {},
  });
});
afterEach(() => port.destroyAll());

const settingsWith = (tls?: ServerTls) => ({ limits: adminLimits, maxConnections: 10, tls });

it('what changes before an opened port is used concerns the port in use', async () => {
  await port.open(loopback);
  port.use(settingsWith(), true);
  const { url } = port;
  await port.open({ ...loopback, host: '127.0.0.2' });
  port.use(settingsWith(), false);
  expect(port.url).toBe(url);
  port.cancel();
  const connection = await RawConnection.open(url);
  expect((await connection.send(get).response()).status).toBe(200);
  connection.close();
});

describeWith('openssl')('certificates (needs the program openssl)', () => {
  it('that verify clients in another way end a connection behind the response that is being read', async () => {
    const folder = new Folder();
    try {
      const [ca, other] = [new Ca(folder.path, 'one'), new Ca(folder.path, 'other')];
      const { certFile, keyFile } = ca.issue('listener');
      const tls = (clientCa: Ca): ServerTls => ({
        cert: readFileSync(certFile, 'utf8'),
        key: readFileSync(keyFile, 'utf8'),
        clientCa: String(clientCa.cert),
        minVersion: 'TLSv1.2',
      });
      await port.open(loopback);
      port.use(settingsWith(tls(ca)), true);
      const client = connect({ port: Number(new URL(port.url).port), host: '127.0.0.1', ca: ca.cert });
      await once(client, 'secureConnect');
      let received = 0;
      client.write(get);
      await once(client, 'readable');
      // Most of the response is in memory.
      port.use(settingsWith(tls(other)), false);
      client.on('data', (chunk: Buffer) => {
        received += chunk.length;
      });
      await once(client, 'close');
      expect(received).toBeGreaterThan(body.length);
    } finally {
      folder.remove();
    }
  });
});
