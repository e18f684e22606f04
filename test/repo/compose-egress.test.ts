import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { tokenCredential } from '../support/config.ts';
import { always, freePort, httpResponse } from '../support/faulty-gateway.ts';
import { findProgram } from '../support/find-program.ts';
import { transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { at, list, record } from '../support/helm.ts';
import { startListening } from '../support/listening-program.ts';
import { type CountersignProcess, listening } from '../support/process.ts';
import { describeWhere } from '../support/requires.ts';
import { testKeys, writeKeys } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const read = (file: string): string => readFileSync(join('deploy', file), 'utf8');
const example: unknown = parse(read('compose.egress.yaml'));
const demo: unknown = parse(read('compose.yaml'), { merge: true });
const config = read('compose/egress/countersign.yaml');
const squidConf = read('compose/egress/squid.conf');

it('Countersign is in the internal network only, and otherwise runs as in the demo', () => {
  const ours = record(example, 'services', 'countersign');
  expect(ours['networks']).toEqual(['inside']);
  expect(at(example, 'networks', 'inside')).toEqual({ internal: true });
  for (const field of ['image', 'read_only', 'cap_drop', 'security_opt', 'command', 'stop_grace_period']) {
    expect([field, ours[field]]).toEqual([field, at(demo, 'services', 'countersign', field)]);
  }
});

it('the paths, names and ports of the configurations are those of the mounted files and of squid', () => {
  const { passwordFile, url } = record(parse(config), 'environments', 'production', 'egressProxy');
  const [secret] = list(example, 'services', 'countersign', 'secrets').map(String);
  expect(passwordFile).toBe(`/run/secrets/${secret}`);
  expect(at(example, 'secrets', secret ?? '')).toBeDefined();
  const [, port] = /^http_port (\d+)$/m.exec(squidConf) ?? [];
  expect(Object.keys(record(example, 'services'))).toContain('squid');
  expect(url).toBe(`http://squid:${port}`);
  const targets = list(example, 'services', 'squid', 'volumes').map((one) => String(one).split(':')[1]);
  const [, users] = /^auth_param basic program \S+ (\S+)$/m.exec(squidConf) ?? [];
  expect(targets).toEqual(['/etc/squid/squid.conf', users]);
});

const squid = findProgram('squid');
const runs = squid !== undefined && findProgram('openssl') !== undefined;

describeWhere(runs, 'squid or openssl is not installed (Debian packages squid, openssl)')(
  'with a real squid',
  () => {
    const starts = harness(afterAll);
    const token = 'billing-token';
    const path = '/production/gw/api/v4/transfer/1234';
    let process: CountersignProcess;
    let squidPort: number;
    let gateway: Awaited<ReturnType<typeof starts.gateway>>;

    /** Both configurations, in which only names, addresses, ports and paths differ. */
    beforeAll(async () => {
      const folder = starts.folder();
      // Squid changes its user.
      chmodSync(folder.path, 0o755);
      const ca = new Ca(folder.path, 'ca');
      const approved = httpResponse('200 OK', 'status=approved\n');
      gateway = await starts.gateway([always(approved)], ca.issue('gateway', { names: 'DNS:localhost' }));
      const password = folder.file('password', 'of-squid');
      const hashed = execFileSync('openssl', ['passwd', '-apr1', '-in', password], { encoding: 'utf8' });
      const users = folder.file('users', `countersign:${hashed}`);
      squidPort = await freePort();
      const adapted = squidConf
        .replace('/etc/squid/users', users)
        .replace('http_port 3128', `http_port 127.0.0.1:${squidPort}`)
        .replace('dstdomain gateway.example', 'dstdomain localhost')
        .replace('port 443', `port ${gateway.port}`);
      const own = 'pid_filename none\naccess_log none\ncache_log /dev/null\n';
      // The name is that of segments in /dev/shm: two with one name end each other.
      const args = ['-N', '-n', 'compose', '-f', folder.file('squid.conf', `${adapted}${own}`)];
      starts.atEnd(await startListening(squid ?? '', args, squidPort));
      const keys = folder.at('keys');
      writeKeys(keys, 'production', 'acme', testKeys);
      const file = config
        .replace('https://gateway.example', `https://localhost:${gateway.port}\n    caFile: ${ca.file}`)
        .replace('http://squid:3128', `http://127.0.0.1:${squidPort}`)
        .replace('/run/secrets/egress_password', password)
        .replace('/etc/countersign/keys', keys)
        .replaceAll(/host: "::", port: \d+/g, 'host: 127.0.0.1, port: 0');
      const env = { BILLING_TOKEN_SHA256: tokenCredential(token).tokenSha256 };
      process = await listening(starts.spawn({ file, env }));
    }, 30_000);

    it('a payment reaches the gateway through squid', async () => {
      const response = await process.post(path, transferForm, { Authorization: `Bearer ${token}` });
      expect(response).toMatchObject({ status: 200, body: 'status=approved\n' });
      expect(gateway.requests()).toHaveLength(1);
    });

    it.each([
      ['without the password', 'localhost', '', 407],
      ['to another host', '127.0.0.1', 'of-squid', 403],
      ['to the gateway', 'localhost', 'of-squid', 200],
    ])('squid responds to a tunnel %s', async (_, host, password, status) => {
      const credentials = Buffer.from(`countersign:${password}`).toString('base64');
      const headers = { 'Proxy-Authorization': `Basic ${credentials}` };
      const target = `${host}:${new URL(gateway.url).port}`;
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        const connecting = request({ port: squidPort, method: 'CONNECT', path: target, headers });
        connecting.once('error', reject).once('connect', (head, socket) => {
          socket.destroy();
          resolve(head);
        });
        connecting.end();
      });
      expect(response.statusCode).toBe(status);
    });
  },
);
