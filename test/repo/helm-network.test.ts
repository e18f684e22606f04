import { BlockList } from 'node:net';
import { expect } from '@jest/globals';
import { parse } from 'yaml';
import { at, configText, list, record, render, renderOne, values } from '../support/helm.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');
const rules = (args: string[], direction: 'ingress' | 'egress') =>
  list(renderOne(args, 'NetworkPolicy'), 'spec', direction);
const issuer = (field: string): string[] => [
  '--set-json',
  `config.jwtIssuers={"idp":{"issuer":"https://idp.example","audience":"countersign",${field}}}`,
];
const portsOf = (rule: unknown) => list(rule, 'ports').map((port) => at(port, 'port'));

whenHelm('only labeled callers may connect to the proxy port, and only monitoring to the admin port', () => {
  const [callers, metrics, test, ...others] = rules(values('default'), 'ingress');
  expect(others).toEqual([]);
  expect(callers).toEqual({
    from: [{ namespaceSelector: {}, podSelector: { matchLabels: { 'countersign/caller': 'true' } } }],
    ports: [{ port: 'proxy', protocol: 'TCP' }],
  });
  expect(at(metrics, 'from')).toEqual([
    { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } },
  ]);
  expect(portsOf(metrics)).toEqual(['admin']);
  const labels = at(renderOne(values('default'), 'Pod'), 'metadata', 'labels');
  expect(labels).toMatchObject(record(test, 'from', 0, 'podSelector', 'matchLabels'));
});

whenHelm('an empty list of callers closes the proxy port', () => {
  const ingress = rules([...values('default'), '--set-json', 'networkPolicy.callers=[]'], 'ingress');
  expect(ingress).toHaveLength(2);
  expect(ingress.every((rule) => list(rule, 'from').length > 0)).toBe(true);
});

whenHelm('egress is limited to DNS, Vault, JWT issuers and the gateway', () => {
  const egress = rules(values('vault-kubernetes'), 'egress');
  expect(egress.map(portsOf)).toEqual([[53, 53], [8200], [6443], [443]]);
  expect(at(egress[2], 'to')).toEqual([{ ipBlock: { cidr: '10.96.0.1/32' } }]);
  expect(at(egress[3], 'to')).toEqual([{ ipBlock: { cidr: '203.0.113.0/24' } }]);
  expect(egress.every((rule) => list(rule, 'to').length > 0)).toBe(true);
  expect(renderOne(values('default'), 'NetworkPolicy')).toMatchObject({
    spec: { policyTypes: ['Ingress', 'Egress'] },
  });
});

whenHelm('without Vault there is no egress to Vault', () => {
  expect(rules(values('directory-keys'), 'egress').map(portsOf)).toEqual([[53, 53], [443]]);
});

whenHelm('without a JWT issuer, or with its keys in a file, there is no egress to one', () => {
  expect(rules(values('default'), 'egress').map(portsOf)).toEqual([[53, 53], [8200], [443]]);
  const withFile = [
    ...values('minimal'),
    '--set-json',
    'networkPolicy.enabled=true',
    ...issuer('"jwks":{"file":"/keys.json"}'),
  ];
  expect(rules(withFile, 'egress').map(portsOf)).toEqual([[53, 53], [8200], [443]]);
});

whenHelm('servers behind an egress proxy are reached through it only', () => {
  const proxied = values('egress-proxy');
  const egress = rules(proxied, 'egress');
  expect(egress.map(portsOf)).toEqual([[53, 53], [8200], [3128]]);
  expect(at(egress[2], 'to')).toEqual([{ ipBlock: { cidr: '10.0.8.4/32' } }]);
  const direct = '{"baseUrl":"https://sandbox.gateway.test","product":"gw"}';
  const withDirect = rules([...proxied, '--set-json', `config.environments.sandbox=${direct}`], 'egress');
  expect(withDirect.map(portsOf)).toEqual([[53, 53], [8200], [443], [3128]]);
  const vault = 'config.keys.vault.egressProxy={"url":"http://egress.internal:3128"}';
  expect(rules([...proxied, '--set-json', vault], 'egress').map(portsOf)).toEqual([[53, 53], [3128]]);
});

whenHelm('only with tracing there is egress to the collector, or to the egress proxy in front of it', () => {
  const collector = 'config.tracing={"otlp":"https://collector.monitoring.svc:4318"}';
  const egress = rules([...values('directory-keys'), '--set-json', collector], 'egress');
  expect(egress.map(portsOf)).toEqual([[53, 53], [443], [4318]]);
  const far =
    'config.tracing={"otlp":"https://otlp.example","egressProxy":{"url":"http://egress.internal:3128"}}';
  const proxied = rules([...values('egress-proxy'), '--set-json', far], 'egress');
  expect(proxied.map(portsOf)).toEqual([[53, 53], [8200], [3128]]);
});

whenHelm('egress to a JWT issuer does not reach the cloud metadata address by default', () => {
  const rule = rules(
    [...values('minimal'), '--set-json', 'networkPolicy.enabled=true', ...issuer('"leeway":"1s"')],
    'egress',
  )[2];
  expect(portsOf(rule)).toEqual([443, 6443]);
  expect(at(rule, 'to', 0, 'ipBlock', 'except')).toContain('169.254.0.0/16');
});

whenHelm('extra egress is added unchanged', () => {
  expect(rules(values('everything'), 'egress').at(-1)).toEqual({
    to: [{ ipBlock: { cidr: '198.51.100.7/32' } }],
    ports: [{ port: 8443, protocol: 'TCP' }],
  });
});

whenHelm('egress to the cloud metadata address is blocked by default', () => {
  const gateway = rules(values('default'), 'egress').at(-1);
  expect(at(gateway, 'to', 0, 'ipBlock', 'except')).toContain('169.254.0.0/16');
});

whenHelm('egress to public IPv6 addresses is allowed by default, to private ones it is not', () => {
  const gateway = list(rules(values('default'), 'egress').at(-1), 'to');
  expect(gateway.map((peer) => at(peer, 'ipBlock', 'cidr'))).toEqual(['0.0.0.0/0', '::/0']);
  const excepted = new BlockList();
  for (const range of list(gateway[1], 'ipBlock', 'except').map(String)) {
    const [network = '', prefix] = range.split('/');
    excepted.addSubnet(network, Number(prefix), 'ipv6');
  }
  for (const address of ['::1', 'fd00:ec2::254', 'fc00::1', 'fe80::1']) {
    expect([address, excepted.check(address, 'ipv6')]).toEqual([address, true]);
  }
  expect(excepted.check('2001:db8::1', 'ipv6')).toBe(false);
});

whenHelm.each(['default', 'vault-kubernetes', 'everything'])(
  'the Vault and gateway ports of the %s values are those of its configuration',
  (name) => {
    const config: unknown = parse(configText(values(name)));
    const environments = Object.values(record(config, 'environments'));
    const urls = [at(config, 'keys', 'vault', 'address'), ...environments.map((one) => at(one, 'baseUrl'))];
    const open = rules(values(name), 'egress').flatMap(portsOf);
    for (const url of urls) expect(open).toContain(Number(new URL(String(url)).port) || 443);
  },
);

whenHelm('the admin port is never published outside of the cluster', () => {
  const services = render(values('everything'), 'Service');
  const published = services.filter((one) => at(one, 'spec', 'type') !== 'ClusterIP');
  expect(published.map((one) => at(one, 'metadata', 'name'))).toEqual(['payments-signer']);
  expect(
    published.flatMap((one) => list(one, 'spec', 'ports')).map((port) => at(port, 'targetPort')),
  ).toEqual(['proxy']);
});

const servicesOf = (args: string[]) =>
  render(args)
    .filter((document) => at(document, 'kind') === 'Service')
    .map((document) => [at(document, 'spec', 'ipFamilyPolicy'), at(document, 'spec', 'ipFamilies')]);

whenHelm('pods listen for IPv6 and IPv4, and Services have the families of the cluster', () => {
  expect(servicesOf(values('default'))).toEqual(Array.from({ length: 2 }, () => [undefined, undefined]));
  const config: unknown = parse(configText(values('default')));
  for (const port of ['proxy', 'admin']) expect(at(config, port, 'host')).toBe('::');
});

whenHelm.each([
  ['IPv4', '0.0.0.0', 'SingleStack', ['IPv4']],
  ['IPv6', '::', 'SingleStack', ['IPv6']],
  ['both', '::', 'PreferDualStack', ['IPv6', 'IPv4']],
])('pods and Services can have %s', (_, listenHost, policy, families) => {
  const own = { listenHost, ipFamilyPolicy: policy, ipFamilies: families };
  const args = [
    ...values('default'),
    ...Object.entries(own).flatMap(([name, value]) => ['--set-json', `${name}=${JSON.stringify(value)}`]),
  ];
  expect(servicesOf(args)).toEqual(Array.from({ length: 2 }, () => [policy, families]));
  const config: unknown = parse(configText(args));
  for (const port of ['proxy', 'admin']) expect(at(config, port, 'host')).toBe(listenHost);
  // Probes name no host: the kubelet connects to the address of the pod. Policies name pods and ports, of both families.
  const container = list(renderOne(args, 'Deployment'), 'spec', 'template', 'spec', 'containers')[0];
  for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
    expect(record(container, probe, 'httpGet')).not.toHaveProperty('host');
  expect(rules(args, 'ingress')).toEqual(rules(values('default'), 'ingress'));
});
