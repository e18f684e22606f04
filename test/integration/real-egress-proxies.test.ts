import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync } from 'node:fs';
import { afterAll, beforeAll, expect } from '@jest/globals';
import type { EnvironmentInput } from '../support/config.ts';
import { always, closedPort, freePort, httpResponse } from '../support/faulty-gateway.ts';
import { findProgram } from '../support/find-program.ts';
import type { Folder } from '../support/folder.ts';
import { verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { startListening } from '../support/listening-program.ts';
import { describeWith, itWhere } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const success = httpResponse('200 OK', 'status=approved', ['Content-Type: text/plain']);
const credentials = { username: 'countersign', password: 'squid-and-tinyproxy' };
const ncsaHelper = ['/usr/lib/squid/basic_ncsa_auth', '/usr/lib64/squid/basic_ncsa_auth'].find(existsSync);

/** Proxies that others wrote. `start` gets their port, that of the gateway, and its own folder. */
const proxies = {
  squid: (port: number, gatewayPort: number, folder: Folder): readonly string[] => {
    const password = execFileSync('openssl', ['passwd', '-apr1', credentials.password], { encoding: 'utf8' });
    const users = folder.file('users', `${credentials.username}:${password}`);
    const lines = [
      `http_port 127.0.0.1:${port}`,
      'pid_filename none',
      'access_log none',
      'cache_log /dev/null',
      'cache deny all',
      `auth_param basic program ${ncsaHelper} ${users}`,
      'acl known proxy_auth REQUIRED',
      `acl gateway port ${gatewayPort} ${closedPort}`,
      'http_access deny !known',
      'http_access allow CONNECT gateway',
      'http_access deny all',
      'shutdown_lifetime 0 seconds',
    ];
    // The name is that of segments in /dev/shm: two with one name end each other.
    return ['-N', '-n', 'realproxies', '-f', folder.file('squid.conf', `${lines.join('\n')}\n`)];
  },
  tinyproxy: (port: number, gatewayPort: number, folder: Folder): readonly string[] => {
    const lines = [
      `Port ${port}`,
      'Listen 127.0.0.1',
      'Timeout 60',
      'MaxClients 50',
      `BasicAuth ${credentials.username} ${credentials.password}`,
      `ConnectPort ${gatewayPort}`,
      `ConnectPort ${closedPort}`,
    ];
    return ['-d', '-c', folder.file('tinyproxy.conf', `${lines.join('\n')}\n`)];
  },
} as const;

describeWith('openssl').each(['squid', 'tinyproxy'] as const)('%s as the egress proxy', (name) => {
  const starts = harness(afterAll);
  const program = findProgram(name);
  const runs = program !== undefined && (name !== 'squid' || ncsaHelper !== undefined);
  const itRuns = itWhere(runs, `${name} is not installed (Debian package ${name})`);
  let url: string;
  let ca: Ca;
  let gateway: Awaited<ReturnType<typeof starts.gateway>>;

  beforeAll(async () => {
    if (program === undefined || !runs) return;
    const folder = starts.folder();
    // Squid changes its user.
    chmodSync(folder.path, 0o755);
    ca = new Ca(folder.path, 'ca');
    gateway = await starts.gateway([always(success)], ca.issue('gateway'));
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    starts.atEnd(await startListening(program, proxies[name](port, gateway.port, folder), port));
  });

  const start = (egressProxy: NonNullable<EnvironmentInput['egressProxy']>, baseUrl = gateway.url) =>
    starts.proxy({
      gateway: baseUrl,
      sandbox: { caFile: ca.file, egressProxy },
    });

  itRuns('tunnels queries and payments', async () => {
    const proxy = await start({ url, ...credentials });
    const responses = [await proxy.balance(), await proxy.transfer(), await proxy.balance()];
    expect(responses.map(({ status, body }) => [status, body])).toEqual(
      Array.from({ length: 3 }, () => [200, 'status=approved']),
    );
  });

  itRuns.each([
    ['without credentials', {}, '', 'proxy-credentials'],
    ['with a wrong password', { ...credentials, password: 'wrong' }, '', 'proxy-credentials'],
    ['to a port that it does not allow', credentials, 'https://127.0.0.1:2', 'proxy-denied'],
    ['to a server that is down', credentials, `https://127.0.0.1:${closedPort}`, 'proxy-failed'],
  ] as const)('makes no tunnel %s: not sent', async (_, auth, baseUrl, cause) => {
    const before = gateway.requests().length;
    const proxy = await start({ url, ...auth }, baseUrl === '' ? gateway.url : baseUrl);
    expect(verdict(await proxy.transfer())).toBe('502 gateway-unreachable not-sent not-sent');
    const [line] = await proxy.requestLines();
    expect(line).toMatchObject({ unreachable: cause });
    expect(gateway.requests()).toHaveLength(before);
  });
});
