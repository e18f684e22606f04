import { readdirSync, readFileSync } from 'node:fs';
import { BlockList } from 'node:net';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { Folder } from '../support/folder.ts';
import { at, chart, configIn, container, list, record, render, renderOne, values } from '../support/helm.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');
const folder = new Folder();
afterAll(() => folder.remove());
const everything = values('everything');

describe('the network policy', () => {
  const rules = (args: string[], direction: 'ingress' | 'egress') =>
    list(renderOne(args, 'NetworkPolicy'), 'spec', direction);
  const portsOf = (rule: unknown) => list(rule, 'ports').map((port) => at(port, 'port'));
  const gateway = () => list(rules(values('default'), 'egress').at(-1), 'to');

  whenHelm('admits only labeled callers to the proxy port, and only monitoring to the admin port', () => {
    const [callers, metrics, test, ...others] = rules(values('default'), 'ingress');
    expect(others).toEqual([]);
    expect(callers).toEqual({
      from: [{ namespaceSelector: {}, podSelector: { matchLabels: { 'countersign/caller': 'true' } } }],
      ports: [{ port: 'proxy', protocol: 'TCP' }],
    });
    const monitoring = { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } };
    expect(at(metrics, 'from')).toEqual([{ namespaceSelector: monitoring }]);
    expect(portsOf(metrics)).toEqual(['admin']);
    const labels = at(renderOne(values('default'), 'Pod'), 'metadata', 'labels');
    expect(labels).toMatchObject(record(test, 'from', 0, 'podSelector', 'matchLabels'));
    const closed = rules(values('default', 'networkPolicy.callers=[]'), 'ingress');
    expect(closed.map((rule) => list(rule, 'from').length)).toEqual([1, 1]);
  });

  const on = 'networkPolicy.enabled=true';
  const issuer = (field: string) =>
    `config.jwtIssuers={"idp":{"issuer":"https://idp.example","audience":"countersign",${field}}}`;
  const direct = '{"baseUrl":"https://sandbox.gateway.test","product":"gw"}';
  const proxy = '{"url":"http://egress.internal:3128"}';
  const claims = (store: string) =>
    values(
      'minimal',
      on,
      `config.payments.once={"store":"${store}","keyFile":"/k"}`,
      'networkPolicy.claims.to=[{"ipBlock":{"cidr":"10.0.9.5/32"}}]',
    );
  const dns = [53, 53];
  whenHelm.each<[string, string[], unknown[]]>([
    [
      'DNS, Vault, JWT issuers and the gateway',
      values('vault-kubernetes'),
      [dns, [8200], [443, 6443], [443]],
    ],
    ['no Vault without one', values('directory-keys'), [dns, [443]]],
    ['no issuer with a file', values('minimal', on, issuer('"jwks":{"file":"/k"}')), [dns, [8200], [443]]],
    ['JWT issuers', values('minimal', on, issuer('"leeway":"1s"')), [dns, [8200], [443, 6443], [443]]],
    ['an egress proxy in place of what is behind it', values('egress-proxy'), [dns, [8200], [3128]]],
    [
      'an egress proxy and what is not behind it',
      values('egress-proxy', `config.environments.sandbox=${direct}`),
      [dns, [8200], [443], [3128]],
    ],
    ['one for Vault', values('egress-proxy', `config.keys.vault.egressProxy=${proxy}`), [dns, [3128]]],
    [
      'the URLs in the configuration',
      values(
        'minimal',
        on,
        'config.environments.sandbox.baseUrl="https://sandbox.gateway.test:8443/v2:1"',
        'config.keys.vault.address="https://vault.internal"',
        'config.tracing={"otlp":"https://[2001:db8::4319]"}',
      ),
      [dns, [443, 8200], [8443], [443, 4318]],
    ],
    [
      'an own choice beside them',
      values('directory-keys', 'networkPolicy.gateway.ports=[8443]'),
      [dns, [443, 8443]],
    ],
    [
      'a variable, of which only the scheme is known',
      values(
        'directory-keys',
        'config.environments.sandbox.baseUrl="https://${HOST}"',
        'extraEnv=[{"name":"HOST","value":"h"}]',
      ),
      [dns, [443]],
    ],
    ['a store of claims', claims('rediss://redis.internal'), [dns, [8200], [443], [6379]]],
    ['one at another port', claims('rediss://redis.internal:6380/2'), [dns, [8200], [443], [6380]]],
    ['no store in memory', claims('memory'), [dns, [8200], [443]]],
    ['tracing', values('directory-keys', 'config.tracing={"otlp":"http://c:4318"}'), [dns, [443], [4318]]],
    [
      'a collector behind a proxy',
      values('egress-proxy', `config.tracing={"otlp":"https://otlp.example","egressProxy":${proxy}}`),
      [dns, [8200], [3128]],
    ],
  ])('opens the ports of %s', (_what, args, expected) => {
    const egress = rules(args, 'egress');
    expect(egress.map(portsOf)).toEqual(expected);
    expect(egress.filter((rule) => list(rule, 'to').length === 0)).toEqual([]);
  });

  whenHelm('leads to the addresses of the values', () => {
    const [, , issuers, servers] = rules(values('vault-kubernetes'), 'egress');
    expect(at(issuers, 'to')).toEqual([{ ipBlock: { cidr: '10.96.0.1/32' } }]);
    expect(at(servers, 'to')).toEqual([{ ipBlock: { cidr: '203.0.113.0/24' } }]);
    expect(at(rules(values('egress-proxy'), 'egress')[2], 'to')).toEqual([
      { ipBlock: { cidr: '10.0.8.4/32' } },
    ]);
    expect(rules(everything, 'egress').at(-1)).toEqual({
      to: [{ ipBlock: { cidr: '198.51.100.7/32' } }],
      ports: [{ port: 8443, protocol: 'TCP' }],
    });
    const policy = renderOne(values('default'), 'NetworkPolicy');
    expect(at(policy, 'spec', 'policyTypes')).toEqual(['Ingress', 'Egress']);
  });

  whenHelm('by default leads to public addresses, and not to those of cloud metadata or private ones', () => {
    const [, , issuers] = rules(values('minimal', on, issuer('"leeway":"1s"')), 'egress');
    for (const peer of [gateway()[0], at(issuers, 'to', 0)])
      expect(at(peer, 'ipBlock', 'except')).toContain('169.254.0.0/16');
    expect(gateway().map((peer) => at(peer, 'ipBlock', 'cidr'))).toEqual(['0.0.0.0/0', '::/0']);
    const excepted = new BlockList();
    for (const range of list(gateway()[1], 'ipBlock', 'except').map(String)) {
      const [network = '', prefix] = range.split('/');
      excepted.addSubnet(network, Number(prefix), 'ipv6');
    }
    const isOpen = (address: string) => !excepted.check(address, 'ipv6');
    const addresses = ['::1', 'fd00:ec2::254', 'fc00::1', 'fe80::1', '2001:db8::1'];
    expect(addresses.filter(isOpen)).toEqual(['2001:db8::1']);
  });
});

describe('Services', () => {
  const families = (args: string[]) =>
    render(args, 'Service').map((one) => [at(one, 'spec', 'ipFamilyPolicy'), at(one, 'spec', 'ipFamilies')]);

  whenHelm('publish the admin port never outside of the cluster', () => {
    const published = render(everything, 'Service').filter((one) => at(one, 'spec', 'type') !== 'ClusterIP');
    expect(published.map((one) => at(one, 'metadata', 'name'))).toEqual(['payments-signer']);
    const ports = published.flatMap((one) => list(one, 'spec', 'ports'));
    expect(ports.map((port) => at(port, 'targetPort'))).toEqual(['proxy']);
  });

  whenHelm.each([
    ['as the cluster', '::', undefined, undefined],
    ['IPv4', '0.0.0.0', 'SingleStack', ['IPv4']],
    ['IPv6', '::', 'SingleStack', ['IPv6']],
    ['both', '::', 'PreferDualStack', ['IPv6', 'IPv4']],
  ])('and pods can have the addresses: %s', (_, listenHost, ipFamilyPolicy, ipFamilies) => {
    const settings = Object.entries({ listenHost, ipFamilyPolicy, ipFamilies }).filter(([, value]) => value);
    const args = values('default', ...settings.map(([name, value]) => `${name}=${JSON.stringify(value)}`));
    expect(families(args)).toEqual(Array.from({ length: 2 }, () => [ipFamilyPolicy, ipFamilies]));
    expect(configIn(args)).toMatchObject({ proxy: { host: listenHost }, admin: { host: listenHost } });
    // Probes name no host: the kubelet connects to the address of the pod.
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
      expect(record(container(args), probe, 'httpGet')).not.toHaveProperty('host');
  });
});

const namesIn = (path: string, ending: string): string[] =>
  readdirSync(path).filter((name) => name.endsWith(ending));

whenHelm('dashboards become ConfigMaps that the Grafana sidecar finds', () => {
  const label = ['metadata', 'labels', 'grafana_dashboard'];
  const maps = render(everything, 'ConfigMap').filter((map) => at(map, ...label) === '1');
  const carried = maps.flatMap((map) => Object.entries(record(map, 'data')));
  const parsed = (text: unknown): unknown => JSON.parse(String(text));
  const files = namesIn('deploy/grafana', '.json').map((name) => [
    `countersign-${name}`,
    parsed(readFileSync(join('deploy/grafana', name), 'utf8')),
  ]);
  expect(Object.fromEntries(carried.map(([name, text]) => [name, parsed(text)]))).toEqual(
    Object.fromEntries(files),
  );
  const folders = maps.map((map) => at(map, 'metadata', 'annotations', 'grafana_folder'));
  expect(new Set(folders)).toEqual(new Set(['Payments']));
});

describe('the PrometheusRule', () => {
  const files = namesIn('deploy/prometheus', '.rules.yaml').map((name) =>
    readFileSync(join('deploy/prometheus', name), 'utf8'),
  );
  const lines = files.flatMap((text) => text.split('\n'));
  const groups = files.flatMap((text) => list(parse(text), 'groups'));
  const rendered = (...settings: string[]) =>
    list(renderOne(values('everything', ...settings), 'PrometheusRule'), 'spec', 'groups');
  const rulesOf = (ofGroups: unknown[]) => ofGroups.flatMap((group) => list(group, 'rules'));

  /** The thresholds of the rule files by name. */
  const marks = lines.flatMap((line) => [
    ...(line.split(' # threshold: ')[1] ?? '').matchAll(/(\w+)=([\d.]+)/g),
  ]);
  const numbers = new Map(marks.map(([, name = '', number]) => [name, Number(number)]));

  whenHelm('has every group of the rule files, unchanged, and ten alerts; only if it is enabled', () => {
    expect(render(values('default'), 'PrometheusRule')).toEqual([]);
    expect(groups).not.toEqual([]);
    expect(rendered()).toEqual(groups);
    const byDefault = renderOne(values('default', 'prometheusRule.enabled=true'), 'PrometheusRule');
    const alerts = rulesOf(list(byDefault, 'spec', 'groups')).flatMap((rule) => at(rule, 'alert') ?? []);
    expect(new Set(alerts).size).toBe(10);
  });

  it('has a threshold for every number that an alert compares with, except 0 and 1', () => {
    expect(lines.filter((line) => /^ [^#]*[<>]=? (?![01]$)[\d.]+[^#]*$/.test(line))).toEqual([]);
  });

  it('has the thresholds of the values', () => {
    const all: unknown = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'));
    const defaults = at(all, 'prometheusRule', 'thresholds');
    expect(Object.fromEntries(numbers)).toEqual(defaults);
  });

  whenHelm('has the thresholds of the values, and nothing else changes with them', () => {
    // No two are equal, and none is a part of another one.
    const changed = [...numbers].map(([name, number], index) => [name, number, `0.9${index + 10}1`] as const);
    const text = JSON.stringify(
      rendered(...changed.map(([name, , other]) => `prometheusRule.thresholds.${name}=${other}`)),
    );
    // As often in the code as in the marks of its lines.
    const isUsed = (other: string) =>
      text.includes(other) &&
      text.split(`=${other}`).length === text.split(new RegExp(`[ (]${other}`)).length;
    expect(changed.filter(([, , other]) => !isUsed(other))).toEqual([]);
    const back = changed.reduce((all, [, number, other]) => all.replaceAll(other, String(number)), text);
    expect(JSON.parse(back)).toEqual(groups);
  });

  whenHelm('has alerts that link to the runbook that the status page links to', () => {
    const runbookUrl = 'https://wiki.test/countersign/$1/runbook';
    const urls = (ofGroups: unknown[]) =>
      rulesOf(ofGroups)
        .map((rule) => at(rule, 'annotations', 'runbook_url'))
        .filter((url) => typeof url === 'string');
    expect(urls(groups).length).toBeGreaterThan(10);
    expect(urls(rendered(`config.admin.runbookUrl="${runbookUrl}"`))).toEqual(
      urls(groups).map((url) => url.replace('deploy/runbook.md', () => runbookUrl)),
    );
  });

  if (whenHelm === it) {
    itWith('promtool')('is accepted by promtool', () => {
      const spec = { groups: rendered('prometheusRule.thresholds.clockSkewSeconds=0.000001') };
      const checked = promtool(['check', 'rules', folder.file('rules.yaml', stringify(spec))]);
      expect(checked).toMatchObject({ status: 0, output: expect.stringContaining('SUCCESS') });
    });
  }
});

describe('the ServiceMonitor', () => {
  const on = 'serviceMonitor.enabled=true';

  whenHelm.each([
    ['pay-countersign-admin', []],
    ['pay-signer-admin', ['nameOverride="signer"']],
    ['gate-admin', ['fullnameOverride="gate"']],
  ])('selects only the admin Service %s, and the job is countersign', (name, override) => {
    const args = values('default', on, ...override);
    const monitor = renderOne(args, 'ServiceMonitor');
    const selector = record(monitor, 'spec', 'selector', 'matchLabels');
    const found = render(args, 'Service').filter((service) =>
      Object.entries(selector).every(([key, value]) => at(service, 'metadata', 'labels', key) === value),
    );
    const labels = { 'app.kubernetes.io/instance': 'pay' };
    expect(found).toMatchObject([{ metadata: { name, labels }, spec: { ports: [{ name: 'admin' }] } }]);
    expect(at(monitor, 'spec', 'jobLabel')).toBeUndefined();
    const release = '__meta_kubernetes_service_label_app_kubernetes_io_instance';
    const relabelings = [
      { targetLabel: 'job', replacement: 'countersign' },
      { sourceLabels: [release], targetLabel: 'release' },
    ];
    const [endpoint] = list(monitor, 'spec', 'endpoints');
    expect(endpoint).toMatchObject({ port: 'admin', path: '/metrics', relabelings });
    for (const ofTls of ['scheme', 'tlsConfig']) expect(endpoint).not.toHaveProperty(ofTls);
    expect(render(values('default', ...override), 'ServiceMonitor')).toEqual([]);
  });

  whenHelm(
    'verifies the admin port with TLS, presents the given certificate, and has added relabelings',
    () => {
      const [endpoint] = list(renderOne(everything, 'ServiceMonitor'), 'spec', 'endpoints');
      expect(endpoint).toMatchObject({
        scheme: 'https',
        tlsConfig: {
          ca: { secret: { name: 'signer-admin-tls', key: 'ca.crt' } },
          serverName: 'payments-signer-admin.payments.svc',
          cert: { secret: { name: 'prometheus-client', key: 'tls.crt' } },
          keySecret: { name: 'prometheus-client', key: 'tls.key' },
        },
        relabelings: [
          { targetLabel: 'job' },
          { targetLabel: 'release' },
          { action: 'labeldrop', regex: 'endpoint' },
        ],
      });
    },
  );
});
