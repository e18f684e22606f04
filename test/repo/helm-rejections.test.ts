import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { withConfigSchema } from '../../scripts/docs/chart-schema.ts';
import { chart, configText, template, values } from '../support/helm.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');
const set = (settings: readonly string[]): string[] => settings.flatMap((setting) => ['--set-json', setting]);
const render = (settings: readonly string[]): { status: number | null; stderr: string } => {
  const { status, stderr } = template([...values('minimal'), ...set(settings)]);
  return { status, stderr };
};
const secretFile = '{"name":"ca","secretName":"vault-ca"}';
const keySecret = '{"environment":"sandbox","login":"acme","secretName":"acme","entries":["control_key"]}';
const host = 'config.environments.sandbox.baseUrl="https://${GATEWAY_HOST}"';

whenHelm.each([
  [
    'a scrape timeout above the interval',
    ['serviceMonitor.enabled=true', 'serviceMonitor.interval="5s"'],
    'serviceMonitor.scrapeTimeout (10s) is longer than serviceMonitor.interval (5s), which Prometheus rejects: shorten the timeout or lengthen the interval',
  ],
  [
    'metrics that need a client certificate, without that of Prometheus',
    ['serviceMonitor.enabled=true', 'adminTls={"enabled":true,"secretName":"admin-tls","clientCa":true}'],
    'adminTls.clientCa requires a client certificate for metrics: set serviceMonitor.tlsConfig.cert and serviceMonitor.tlsConfig.keySecret to that of Prometheus',
  ],
  [
    'the same port twice',
    ['ports.admin=8080'],
    'ports.proxy and ports.admin are both 8080: choose two different ports, since the pod listens on both',
  ],
  [
    'Services of IPv6 before pods of IPv4',
    ['listenHost="0.0.0.0"', 'ipFamilies=["IPv6"]'],
    'listenHost 0.0.0.0 is IPv4 alone, and the Services have IPv6: set listenHost to "::"',
  ],
  [
    'upper case in fullnameOverride',
    ['fullnameOverride="Payments"'],
    'Kubernetes rejects "Payments" as a Service name: set fullnameOverride to a name of lower-case letters, digits and hyphens that begins with a letter',
  ],
  [
    'upper case in nameOverride',
    ['nameOverride="Signer"'],
    'Kubernetes rejects "pay-Signer" as a Service name: set fullnameOverride',
  ],
  [
    'two secretFiles with the same name',
    [`secretFiles=[${secretFile},${secretFile}]`],
    'secretFiles has two entries named "ca": give each a unique name, which is its directory',
  ],
  [
    'two keySecrets for one file',
    [`keySecrets=[${keySecret},${keySecret}]`],
    'keySecrets has two sources for sandbox/acme/control_key: remove one of them',
  ],
  [
    'a number as the value of an environment variable',
    ['extraEnv=[{"name":"UV_THREADPOOL_SIZE","value":8}]'],
    'the value of UV_THREADPOOL_SIZE in extraEnv is not a string: quote it, value: "8" (or --set-string)',
  ],
  [
    'callers with bearer tokens on a port without TLS',
    [
      `config.callers=[{"name":"a","credentials":[{"tokenSha256":"${'a'.repeat(64)}"}]},{"name":"b","credentials":[{"jwt":{"issuer":"i","subject":"s"}}]},{"name":"c","credentials":[{"certificateDns":"c"}]}]`,
    ],
    'a, b would send a bearer token without TLS: set tls.enabled and tls.secretName, or, if a service mesh encrypts the connections, config.proxy.allowPlaintext: true',
  ],
  [
    'an egress proxy that the network policy would block',
    [
      'networkPolicy.enabled=true',
      'config.environments.sandbox.egressProxy={"url":"http://egress.internal:3128"}',
    ],
    'config has an egressProxy, which the network policy would block: set networkPolicy.egressProxy.to to its address, such as [{ ipBlock: { cidr: 10.0.8.4/32 } }], and networkPolicy.egressProxy.ports',
  ],
  [
    'an audit trail without its Secret',
    ['audit.enabled=true'],
    "at '/audit/secretName': minLength: got 0, want 1",
  ],
  [
    'an audit section without its key',
    ['config.audit={"required":true}'],
    'config.audit has no keyFile: set audit.enabled and audit.secretName, and the chart sets it',
  ],
  [
    'an audit trail on standard output that is to be on the disk',
    ['audit={"enabled":true,"secretName":"audit"}', 'config.audit={"sync":true}'],
    'config.audit.sync needs a directory: set audit.volume, since standard output cannot be written through to a disk',
  ],
  [
    'claims of order IDs in the memory of several pods',
    ['replicaCount=2', 'config.payments={"once":{"store":"memory"}}'],
    'config.payments.once.store is memory, which several pods do not share, so each of them would send a payment once: name a Redis or Valkey, or set replicaCount: 1 and autoscaling.enabled: false',
  ],
  [
    'a variable in the configuration that is not set',
    [host],
    'config uses ${GATEWAY_HOST}, but GATEWAY_HOST is not set: add { name: GATEWAY_HOST, secretName: ..., key: ... } to secretEnv',
  ],
  [
    'a misspelled section of the configuration',
    ['config.kees={}'],
    "at '/config': additional properties 'kees' not allowed",
  ],
  [
    'a removed option of the keys',
    ['config.keys.rotation.canary=true'],
    "at '/config/keys/rotation': value must be 'absent, since it was removed, and with it canary: Countersign sends nothing of its own to the gateway, and a rejected query or payment finds the accepted key by itself. Remove it'",
  ],
  [
    'a removed option of an environment',
    ['config.environments.sandbox.canaryEndpoint="77"'],
    "at '/config/environments/sandbox/canaryEndpoint': value must be 'absent, since it was removed: ",
  ],
  [
    'a misspelled field of an environment',
    ['config.environments.sandbox.maxInflight=5'],
    "at '/config/environments/sandbox': additional properties 'maxInflight' not allowed",
  ],
  [
    'a misspelled field of the keys',
    ['config.keys.chache={}'],
    "at '/config/keys': additional properties 'chache' not allowed",
  ],
  [
    'a misspelled field of the Vault login',
    ['config.keys.vault.auth.tokenfile="/t"'],
    "at '/config/keys/vault/auth': additional properties 'tokenfile' not allowed",
  ],
  [
    'a variable as the request timeout, which the grace period depends on',
    ['config.environments.sandbox.timeouts.request="${LIMIT}"'],
    "at '/config/environments/sandbox/timeouts/request'",
  ],
  [
    'a variable as the shutdown timeout, which the grace period depends on',
    ['config.proxy.timeouts.shutdown="${LIMIT}"'],
    "at '/config/proxy/timeouts/shutdown'",
  ],
  [
    'an unknown log level',
    ['config.log.level="loud"'],
    "at '/config/log/level': value must be one of 'debug', 'info', 'warn', 'error', 'silent'",
  ],
  [
    'a runbook prefix that is not a URL',
    ['prometheusRule.runbookUrlPrefix="runbook"'],
    "at '/prometheusRule/runbookUrlPrefix'",
  ],
])('the chart rejects %s and says what to do', (_what, settings, message) => {
  const { status, stderr } = render(settings);
  expect(status).toBe(1);
  expect(stderr).toContain(message);
});

whenHelm('all problems are reported at once', () => {
  const { stderr } = render(['ports.admin=8080', 'fullnameOverride="Payments"', host]);
  expect(stderr.match(/^- .*$/gm)).toEqual([
    expect.stringContaining('"Payments"'),
    expect.stringContaining('8080'),
    expect.stringContaining('GATEWAY_HOST'),
  ]);
});

whenHelm.each([
  [
    'from a Secret',
    [
      'secretEnv=[{"name":"GATEWAY_HOST","secretName":"s","key":"k"},{"name":"VAULT_TOKEN","secretName":"s","key":"t"}]',
    ],
  ],
  ['from extraEnv', ['extraEnv=[{"name":"GATEWAY_HOST","value":"gateway.test"}]']],
])('a variable in the configuration may come %s', (_where, settings) => {
  expect(render([host, ...settings])).toEqual({ status: 0, stderr: '' });
});

whenHelm('an escaped ${ is not a variable', () => {
  expect(render(['config.environments.sandbox.baseUrl="https://gateway.test/$${x}"']).stderr).toBe('');
});

whenHelm.each([
  ['a number', 'config.admin.maxConnections="${LIMIT}"'],
  ['a duration', 'config.keys.cache.ttl="${LIMIT}"'],
  ['a choice', 'config.log.level="${LIMIT}"'],
  ['a name with a pattern', 'config.environments.sandbox.product="${LIMIT}"'],
])('a variable may replace %s in the configuration', (_what, setting) => {
  const given = [setting, 'extraEnv=[{"name":"LIMIT","value":"5"}]'];
  expect(render(given)).toEqual({ status: 0, stderr: '' });
  expect(configText([...values('minimal'), ...set(given)])).toContain('${LIMIT}');
});

whenHelm('keys of one login may come from two Secrets', () => {
  const other = keySecret
    .replace('control_key', 'private_key.pem')
    .replace('"acme","entries', '"rsa","entries');
  expect(render([`keySecrets=[${keySecret},${other}]`])).toEqual({ status: 0, stderr: '' });
});

it('the values schema contains the schema of the configuration (npm run generate)', () => {
  const schema = readFileSync(join(chart, 'values.schema.json'), 'utf8');
  expect(withConfigSchema(schema)).toBe(schema);
});
