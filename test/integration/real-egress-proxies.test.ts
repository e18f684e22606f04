import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync } from 'node:fs';
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
  /** The one of the example, in which only the host, addresses, ports and paths differ. */
  squid: (port: number, gatewayPort: number, folder: Folder): readonly string[] => {
    const password = execFileSync('openssl', ['passwd', '-apr1', credentials.password], { encoding: 'utf8' });
    const users = folder.file('users', `${credentials.username}:${password}`);
    const config = readFileSync('deploy/compose/egress/squid.conf', 'utf8')
      .replace('/usr/lib/squid/basic_ncsa_auth /etc/squid/users', `${ncsaHelper} ${users}`)
      .replace('http_port 3128', `http_port 127.0.0.1:${port}`)
      .replace('dstdomain gateway.example', 'dstdomain 127.0.0.1')
      .replace('port 443', `port ${gatewayPort} ${closedPort}`);
    const own = 'pid_filename none\naccess_log none\ncache_log /dev/null\n';
    // The name is that of segments in /dev/shm: two with one name end each other.
    return ['-N', '-n', 'realproxies', '-f', folder.file('squid.conf', `${config}${own}`)];
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
    starts.proxy({ gateway: baseUrl, sandbox: { caFile: ca.file, egressProxy } });

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
    // Tinyproxy allows a port of any host.
    [
      'to another host',
      credentials,
      `https://localhost:${closedPort}`,
      `proxy-${name === 'squid' ? 'denied' : 'failed'}`,
    ],
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
