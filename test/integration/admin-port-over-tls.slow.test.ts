import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, get } from 'node:https';
import { text } from 'node:stream/consumers';
import { beforeEach, expect, it } from '@jest/globals';
import type { ConfigInput } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { execForm } from '../support/image.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

type AdminTls = NonNullable<NonNullable<ConfigInput['admin']>['tls']>;

const pages = ['/', '/status.json', '/metrics'];
const probes = ['/healthz', '/readyz'];

describeWith('openssl')('the admin port with TLS', () => {
  const starts = harness();
  let ca: Ca;
  let other: Ca;
  let server: Issued;
  let client: Issued;

  beforeEach(() => {
    const folder = starts.folder();
    [ca, other] = [new Ca(folder.path, 'ours'), new Ca(folder.path, 'theirs')];
    server = ca.issue('server');
    client = ca.issue('prometheus');
  });

  const adminWith = (tls: Partial<AdminTls> = {}) => ({
    admin: { port: 0, tls: { certFile: server.certFile, keyFile: server.keyFile, ...tls } },
  });

  const start = (config: Partial<ConfigInput> = adminWith()): Promise<TestProxy> => starts.proxy({ config });

  /** The status of each, with this certificate. */
  function readAll({ adminUrl }: TestProxy, paths: readonly string[], own?: Issued): Promise<number[]> {
    const agent = new Agent({ ca: ca.cert, ...(own && { cert: own.cert, key: own.key }) });
    const read = async (path: string) => {
      const [response] = await once(get(`${adminUrl}${path}`, { agent }), 'response');
      await text(response);
      return response.statusCode;
    };
    return Promise.all(paths.map(read));
  }

  it('has all pages over HTTPS, and none without', async () => {
    const proxy = await start();
    expect(proxy.adminUrl).toMatch(/^https:/);
    expect(await readAll(proxy, [...pages, ...probes])).toEqual([200, 200, 200, 200, 200]);
    await expect(fetch(proxy.adminUrl.replace('https:', 'http:'))).rejects.toThrow();
    await until(() => proxy.logLines('TLS handshake failed').length > 0);
    const [line] = proxy.logLines('TLS handshake failed');
    expect(line).toMatchObject({ role: 'admin', problem: 'other', cause: 'plain-http', peer: '127.0.0.1' });
  });

  it.each([undefined, 'TLS', 'a client CA'])(
    'passes the health check of the image: with %s',
    async (what) => {
      const config = what === undefined ? {} : adminWith(what === 'TLS' ? {} : { clientCaFile: ca.file });
      const { adminUrl } = await start({ admin: { port: 0 }, ...config });
      const [program = '', ...args] = execForm(readFileSync('Dockerfile', 'utf8'), 'HEALTHCHECK');
      const check = async (port: string): Promise<unknown> => {
        const words = args.map((word) => word.replace(':9090', `:${port}`));
        return (await once(spawn(program, words, { stdio: 'inherit' }), 'exit'))[0];
      };
      expect(await check(new URL(adminUrl).port)).toBe(0);
      expect(await check('1')).toBe(1);
    },
  );

  it('requires a certificate of its client CA for pages, and none for probes', async () => {
    const proxy = await start(adminWith({ clientCaFile: ca.file }));
    expect(await readAll(proxy, pages)).toEqual([403, 403, 403]);
    expect(await readAll(proxy, pages, other.issue('stranger'))).toEqual([403, 403, 403]);
    expect(await readAll(proxy, pages, client)).toEqual([200, 200, 200]);
    expect(await readAll(proxy, probes)).toEqual([200, 200]);
    const clientCrlFile = starts.folder().file('crl.pem', ca.revocationList(client));
    const revoking = await start(adminWith({ clientCaFile: ca.file, clientCrlFile }));
    expect(await readAll(revoking, pages, client)).toEqual([403, 403, 403]);
  });

  it('with a reload gets or loses its client CA, and TLS', async () => {
    const proxy = await start();
    const kept = new Agent({ keepAlive: true, ca: ca.cert });
    starts.atEnd(() => kept.destroy());
    const [first] = await once(get(`${proxy.adminUrl}/metrics`, { agent: kept }), 'response');
    await text(first);
    const [open] = Object.values(kept.freeSockets).flat();
    expect(await proxy.reload(adminWith({ clientCaFile: ca.file }))).toEqual([]);
    await until(() => open?.destroyed === true, 'the connection from before has ended');
    expect(await readAll(proxy, pages)).toEqual([403, 403, 403]);
    expect(await proxy.reload({ admin: { port: 0 } })).toEqual([]);
    await expect(readAll(proxy, pages)).rejects.toThrow();
    const plain = await fetch(proxy.adminUrl.replace('https:', 'http:'));
    expect(plain.status).toBe(200);
    expect(await proxy.reload(adminWith())).toEqual([]);
    expect(await readAll(proxy, pages)).toEqual([200, 200, 200]);
  });
});
