import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { at, list, record } from '../support/helm.ts';
import { execForm } from '../support/image.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';

const folder = mkdtempSync(join(tmpdir(), 'countersign-compose-'));
afterAll(() => rmSync(folder, { recursive: true }));

const read = (file: string): unknown => parse(readFileSync(join('deploy', file), 'utf8'), { merge: true });
const services = record(read('compose.yaml'), 'services');
const names = Object.keys(services);
const mounts = names.flatMap((name) =>
  list(services[name], 'volumes').map((volume) => {
    const [source = '', target = '', mode] = String(volume).split(':');
    return { name, source, target, mode };
  }),
);
/** The file of this checkout that is mounted in a service at a path. */
function mountedFile(service: string, path: string): string | undefined {
  const mount = mounts.find(({ name, target }) => name === service && path.startsWith(target));
  return mount === undefined ? undefined : join('deploy', mount.source, path.slice(mount.target.length));
}

it('every mounted file exists and is mounted read-only', () => {
  const files = mounts.filter(({ source }) => source.startsWith('.'));
  expect(files.filter(({ source }) => !existsSync(join('deploy', source)))).toEqual([]);
  expect(files.filter(({ mode }) => mode !== 'ro')).toEqual([]);
});

it('every referenced volume and service exists', () => {
  const volumes = mounts.filter(({ source }) => !source.startsWith('.')).map(({ source }) => source);
  expect(Object.keys(record(read('compose.yaml'), 'volumes')).sort()).toEqual([...new Set(volumes)].sort());
  const referred = names.flatMap((name) => Object.keys(record(services[name], 'depends_on')));
  expect(referred.filter((name) => !names.includes(name))).toEqual([]);
});

it('every port is unique and published on loopback only', () => {
  const ports = names.flatMap((name) => list(services[name], 'ports').map(String));
  expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
  const published = ports.map((port) => port.split(':')[1]);
  expect(new Set(published).size).toBe(published.length);
});

it('every image has a version', () => {
  const images = names.map((name) => String(at(services[name], 'image')));
  expect(images.filter((image) => !/:v?\d+(\.\d+)+\}$|^countersign:dev$/.test(image))).toEqual([]);
});

it('the image of Countersign runs as in production: read-only, no capabilities', () => {
  const ours = names.filter((name) => at(services[name], 'image') === 'countersign:dev');
  expect(ours).toEqual(['prepare', 'simulator', 'countersign']);
  for (const name of ours) {
    expect(services[name]).toMatchObject({
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
    });
  }
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

it('Prometheus scrapes the admin port, by an alias of the service that owns the network', () => {
  const [target] = list(read('compose/prometheus.yml'), 'scrape_configs', 0, 'static_configs', 0, 'targets');
  const port = at(read('compose/countersign.yaml'), 'admin', 'port');
  expect(at(services['countersign'], 'network_mode')).toBe('service:vault');
  const aliases = list(services['vault'], 'networks', 'default', 'aliases');
  expect(aliases.map((alias) => `${String(alias)}:${String(port)}`)).toEqual([target]);
});

itWith('promtool')('promtool accepts the configuration of Prometheus, with the rules that it loads', () => {
  const text = readFileSync('deploy/compose/prometheus.yml', 'utf8');
  const [pattern = ''] = list(parse(text), 'rule_files').map(String);
  const rules = mountedFile('prometheus', pattern) ?? '';
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'prometheus.yml');
  writeFileSync(file, text.replace(pattern, join(process.cwd(), rules)));
  const { status, output } = promtool(['check', 'config', file]);
  expect({ status, output }).toEqual({ status: 0, output: expect.stringContaining('alerts.rules.yaml') });
});

it('the health check of the image is also in the compose file, because OCI images have none', () => {
  const [, options = ''] = /^HEALTHCHECK (.*?) \\$/m.exec(readFileSync('Dockerfile', 'utf8')) ?? [];
  const timing = [...options.matchAll(/--([\w-]+)=(\w+)/g)].map(([, name = '', value = '']) => [
    name.replace('-', '_'),
    /^\d+$/.test(value) ? Number(value) : value,
  ]);
  expect(services['countersign']).toHaveProperty('healthcheck', {
    test: ['CMD', ...execForm(readFileSync('Dockerfile', 'utf8'), 'HEALTHCHECK')],
    ...Object.fromEntries(timing),
  });
});

it('Grafana sees every dashboard and no other JSON file', () => {
  const path = String(
    at(read('compose/grafana/dashboards/countersign.yaml'), 'providers', 0, 'options', 'path'),
  );
  const seen = mounts
    .filter(({ name, target }) => name === 'grafana' && target.startsWith(path))
    .flatMap(({ source, target }) =>
      statSync(join('deploy', source)).isDirectory()
        ? readdirSync(join('deploy', source), { recursive: true, encoding: 'utf8' })
        : [posix.relative(path, target)],
    );
  const dashboards = readdirSync('deploy/grafana').filter((name) => name.endsWith('.json'));
  expect(seen.sort()).toEqual(dashboards.sort());
  for (const name of dashboards)
    expect(mountedFile('grafana', `${path}/${name}`)).toBe(`deploy/grafana/${name}`);
});

it('Grafana finds its data source', () => {
  const source = at(read('compose/grafana/datasources/datasources.yaml'), 'datasources', 0);
  expect(source).toMatchObject({ uid: 'prometheus', url: 'http://prometheus:9090', isDefault: true });
  for (const kind of ['datasources', 'dashboards']) {
    expect(mountedFile('grafana', `/etc/grafana/provisioning/${kind}`)).toBe(
      `deploy/compose/grafana/${kind}`,
    );
  }
});

it('traces go from Countersign to the collector, from there to Tempo, and Grafana links exemplars to them', () => {
  const nameAndPort = (url: unknown): string[] =>
    /^http:\/\/([^:]+):(\d+)$/.exec(String(url))?.slice(1) ?? [];
  const portOf = (receivers: unknown): string =>
    String(at(receivers, 'otlp', 'protocols', 'http', 'endpoint')).replace('[::]:', '');
  const ours = nameAndPort(at(read('compose/countersign.yaml'), 'tracing', 'otlp'));
  const collector = read('compose/traces/collector.yaml');
  expect(ours).toEqual(['collector', portOf(at(collector, 'receivers'))]);
  const tempo = read('compose/traces/tempo.yaml');
  const next = nameAndPort(at(collector, 'exporters', 'otlp_http', 'endpoint'));
  expect(next).toEqual(['tempo', portOf(at(tempo, 'distributor', 'receivers'))]);
  for (const name of ['collector', 'tempo']) {
    expect(names).toContain(name);
    const [, file = ''] = /config[.a-z]*=(\S+)/.exec(String(list(services[name], 'command')[0])) ?? [];
    expect(mountedFile(name, file)).toBe(`deploy/compose/traces/${name}.yaml`);
  }
  const sources = list(read('compose/grafana/datasources/datasources.yaml'), 'datasources');
  const [{ datasourceUid } = { datasourceUid: '' }] = list(
    sources[0],
    'jsonData',
    'exemplarTraceIdDestinations',
  ).map((one) => record(one));
  const source = sources.find((one) => at(one, 'uid') === datasourceUid);
  expect(nameAndPort(at(source, 'url'))).toEqual(['tempo', String(at(tempo, 'server', 'http_listen_port'))]);
  expect(list(services['prometheus'], 'command')).toContain('--enable-feature=exemplar-storage');
});
