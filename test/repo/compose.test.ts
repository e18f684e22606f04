import { execFile } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { loadSimulatorKeys } from '../../src/cli/simulate.ts';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { compileCache } from '../support/compile-cache.ts';
import { harness } from '../support/harness.ts';
import { at, list, record } from '../support/helm.ts';
import { execForm } from '../support/image.ts';
import { listening } from '../support/process.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const starts = harness(afterAll);
const folder = starts.folder();

const read = (file: string): unknown => parse(readFileSync(join('deploy', file), 'utf8'), { merge: true });
const services = record(read('compose.yaml'), 'services');
const names = Object.keys(services);
const mounts = names.flatMap((name) =>
  list(services[name], 'volumes').map((volume) => {
    const [source = '', target = '', mode] = String(volume).split(':');
    return { name, source, target, mode };
  }),
);
const files = mounts.filter(({ source }) => source.startsWith('.'));
/** The file of this checkout that is mounted in a service at a path. */
function mountedFile(service: string, path: string): string | undefined {
  const mount = files.find(({ name, target }) => name === service && path.startsWith(target));
  return mount && join('deploy', mount.source, path.slice(mount.target.length));
}
/** What is configured for a service: in the compose file, and in the files that are mounted. */
function textOf(service: string): string {
  const paths = files.filter(({ name }) => name === service).map(({ source }) => join('deploy', source));
  const texts = paths
    .flatMap((path) => globSync([path, `${path}/*.yaml`]))
    .filter((path) => statSync(path).isFile());
  return [JSON.stringify(services[service]), ...texts.map((path) => readFileSync(path, 'utf8'))].join('\n');
}

it('every mounted file exists and is mounted read-only; volumes, services and named files are there', () => {
  expect(files.filter(({ source, mode }) => !existsSync(join('deploy', source)) || mode !== 'ro')).toEqual(
    [],
  );
  const volumes = mounts.filter((mount) => !files.includes(mount)).map(({ source }) => source);
  expect(Object.keys(record(read('compose.yaml'), 'volumes')).sort()).toEqual([...new Set(volumes)].sort());
  const referred = names.flatMap((name) => Object.keys(record(services[name], 'depends_on')));
  expect(referred.filter((name) => !names.includes(name))).toEqual([]);
  for (const name of names)
    for (const [file] of JSON.stringify(at(services[name], 'command') ?? '').matchAll(/\/etc\/[\w./]+/g))
      expect([file, existsSync(mountedFile(name, file) ?? '')]).toEqual([file, true]);
});

it('every address is that of a service, or of its alias, which has the port', () => {
  const [alias] = list(services['vault'], 'networks', 'default', 'aliases').map(String);
  expect([alias, at(services['countersign'], 'network_mode')]).toEqual(['countersign', 'service:vault']);
  const addresses = names.flatMap((name) => [
    ...textOf(name).matchAll(/(?:http:\/\/|targets: \[")([a-z]+):(\d+)/g),
  ]);
  expect(addresses.length).toBeGreaterThan(5);
  for (const [, name = '', port = ''] of addresses) {
    const listens = textOf(name).replaceAll(`${name}:${port}`, '').includes(port);
    expect([name, port, listens]).toEqual([name, port, true]);
  }
});

it('every port is unique and published on loopback only, and every image has a version', () => {
  const ports = names.flatMap((name) => list(services[name], 'ports').map(String));
  expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
  expect(new Set(ports.map((port) => port.split(':')[1])).size).toBe(ports.length);
  const images = names.map((name) => String(at(services[name], 'image')));
  expect(images.filter((image) => !/:v?\d+(\.\d+)+\}$|^countersign:dev$/.test(image))).toEqual([]);
});

it('the image of Countersign runs as in production: read-only, no capabilities', () => {
  const ours = names.filter((name) => at(services[name], 'image') === 'countersign:dev');
  expect(ours).toEqual(['prepare', 'simulator', 'countersign']);
  const options = { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] };
  for (const name of ours) expect(services[name]).toMatchObject(options);
});

it('the stop timeout of containers is the grace period of pods, in every command and file', () => {
  const chart: unknown = parse(readFileSync('helm/countersign/values.yaml', 'utf8'));
  const seconds = at(chart, 'terminationGracePeriodSeconds');
  expect(at(services['countersign'], 'stop_grace_period')).toBe(`${String(seconds)}s`);
  const texts = ['Dockerfile', 'README.md', 'deploy/compose.yaml'].map((file) => readFileSync(file, 'utf8'));
  const commands = texts.flatMap((text) => text.match(/docker run .*/g) ?? []);
  expect(commands.length).toBeGreaterThan(0);
  for (const command of commands) expect(command).toContain(`--stop-timeout ${String(seconds)} `);
});

itWith('promtool')('promtool accepts the configuration of Prometheus, with the rules that it loads', () => {
  const text = readFileSync('deploy/compose/prometheus.yml', 'utf8');
  const [pattern = ''] = list(parse(text), 'rule_files').map(String);
  const rules = mountedFile('prometheus', pattern) ?? '';
  const file = folder.file('prometheus.yml', text.replace(pattern, join(process.cwd(), rules)));
  const { status, output } = promtool(['check', 'config', file]);
  expect({ status, output }).toEqual({ status: 0, output: expect.stringContaining('alerts.rules.yaml') });
});

it('the health check of the image is also in the compose file, because OCI images have none', () => {
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  const [, options = ''] = /^HEALTHCHECK (.*?) \\$/m.exec(dockerfile) ?? [];
  const timing = [...options.matchAll(/--([\w-]+)=(\w+)/g)].map(([, name = '', value = '']) => [
    name.replace('-', '_'),
    /^\d+$/.test(value) ? Number(value) : value,
  ]);
  const test = ['CMD', ...execForm(dockerfile, 'HEALTHCHECK')];
  expect(at(services['countersign'], 'healthcheck')).toEqual({ test, ...Object.fromEntries(timing) });
});

it('Grafana sees every dashboard and no other file, and its sources, which exemplars lead to', () => {
  const [provider] = list(read('compose/grafana/dashboards/countersign.yaml'), 'providers');
  const seen = files.flatMap(({ name, source, target }) =>
    name === 'grafana' && target.startsWith(String(at(provider, 'options', 'path'))) ? [source] : [],
  );
  expect(seen).toEqual(
    globSync('grafana/*.json', { cwd: 'deploy' })
      .sort()
      .map((file) => `./${file}`),
  );
  for (const kind of ['datasources', 'dashboards'])
    expect(mountedFile('grafana', `/etc/grafana/provisioning/${kind}`)).toBe(
      `deploy/compose/grafana/${kind}`,
    );
  expect(list(read('compose/grafana/datasources/datasources.yaml'), 'datasources')).toMatchObject([
    {
      uid: 'prometheus',
      isDefault: true,
      jsonData: { exemplarTraceIdDestinations: [{ name: 'trace_id', datasourceUid: 'tempo' }] },
    },
    { uid: 'tempo' },
  ]);
  expect(list(services['prometheus'], 'command')).toContain('--enable-feature=exemplar-storage');
});

it('after two runs of prepare, Countersign signs requests that the simulator accepts', async () => {
  const vault = starts.closing(new StubVault());
  await vault.listen();
  const [keys, login] = [folder.at('keys'), folder.at('login')];
  for (const made of [keys, login]) mkdirSync(made);
  const env = { VAULT_ADDR: vault.address, VAULT_TOKEN: rootToken, KEYS_DIR: keys, LOGIN_DIR: login };
  for (let run = 0; run < 2; run += 1) {
    const options = { env: { ...compileCache, ...env } };
    const printed = await promisify(execFile)(process.execPath, ['deploy/compose/prepare.mts'], options);
    const stdout = `${vault.address} has keys for acme, beta in sandbox\n`;
    expect(printed).toEqual({ stdout, stderr: '' });
  }
  const simulator = await starts.simulator({ keys: await loadSimulatorKeys(keys), clock: Date.now });
  // The configuration of deploy/compose.yaml with local addresses and paths.
  const file = readFileSync('deploy/compose/countersign.yaml', 'utf8')
    .replace('http://127.0.0.1:8200', vault.address)
    .replace('http://simulator:8090', simulator.url)
    .replaceAll('/etc/countersign/login', login)
    .replaceAll(/host: "::", port: \d+/g, 'host: 127.0.0.1, port: 0');
  const countersign = await listening(starts.spawn({ file }));
  const post = async (path: string, form: string, token = 'countersign-demo') =>
    (await countersign.post(`/sandbox/gw/api${path}`, form, { Authorization: `Bearer ${token}` })).status;
  const status = 'login=acme&client_orderid=invoice-1';
  const statuses = [
    await post('/v2/get-balance/manager/acme', ''),
    await post('/v4/status/1234', status),
    await post('/v4/status/1234', status, 'unknown'),
  ];
  expect(statuses).toEqual([200, 200, 401]);
});

const example = read('compose.egress.yaml');
const config = readFileSync('deploy/compose/egress/countersign.yaml', 'utf8');
const squidConf = readFileSync('deploy/compose/egress/squid.conf', 'utf8');

it('Countersign is in the internal network only, and otherwise runs as in the demo', () => {
  const ours = record(example, 'services', 'countersign');
  expect(ours['networks']).toEqual(['inside']);
  expect(at(example, 'networks', 'inside')).toEqual({ internal: true });
  for (const field of ['image', 'read_only', 'cap_drop', 'security_opt', 'command', 'stop_grace_period']) {
    expect([field, ours[field]]).toEqual([field, at(services['countersign'], field)]);
  }
});

it('its configuration is valid, and has the paths, names and ports of the mounted files and of squid', () => {
  const options = { lookUp: () => undefined, builtIn: builtInOperations };
  expect(validateConfig(config, options)).toHaveProperty('config');
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
