import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, globSync, lstatSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { withConfigSchema } from '../../scripts/docs/chart-schema.ts';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { Folder } from '../support/folder.ts';
import { at, chart, configText, helm, record, render, template, values } from '../support/helm.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');
const folder = new Folder();
afterAll(() => folder.remove());
const textOf = (...path: string[]): string => readFileSync(join(...path), 'utf8');

whenHelm.each(['default', 'everything'])('helm lint --strict finds nothing with the %s values', (name) => {
  const { status, stdout } = helm(['lint', '--strict', chart, '--kube-version', '1.34.0', ...values(name)]);
  expect([status, stdout]).toEqual([0, expect.not.stringMatching(/\[(ERROR|WARNING)\]/)]);
});

whenHelm(
  'the packaged chart renders as the directory, and holds no recording, picture, source or test',
  () => {
    expect(helm(['package', chart, '--destination', folder.path])).toMatchObject({ status: 0 });
    const archive = folder.at('countersign-0.2.0.tgz');
    expect(render(values('everything'), undefined, archive)).toEqual(render(values('everything')));
    const packed = execFileSync('tar', ['--list', '--file', archive], { encoding: 'utf8' })
      .trim()
      .split('\n');
    const linked = [
      ...globSync('*.json', { cwd: 'deploy/grafana' }).map((file) => `files/dashboards/${file}`),
      ...globSync('*.rules.yaml', { cwd: 'deploy/prometheus' }).map((file) => `files/prometheus/${file}`),
    ];
    const own = globSync(['*.md', '*.yaml', '*.json', 'files/*.*', 'templates/**/*.*'], { cwd: chart });
    const expected = ['.helmignore', ...own, ...linked].map((file) => `countersign/${file}`);
    expect(packed.sort()).toEqual(expected.sort());
  },
);

whenHelm('a copy of the chart that lost its links has no alerts and no dashboards, and says so', () => {
  const copy = folder.at('without-links');
  cpSync(chart, copy, { recursive: true, filter: (file) => !lstatSync(file).isSymbolicLink() });
  const { status, stderr } = template(values('everything'), copy);
  expect(status).toBe(1);
  expect(stderr).toContain(
    '- prometheusRule is enabled, but this copy of the chart has no files/prometheus/',
  );
  expect(stderr).toContain('- dashboards is enabled, but this copy of the chart has no files/dashboards/');
  expect(template(values('minimal'), copy)).toMatchObject({ status: 0 });
});

it('chart, package and image name the same version', () => {
  const version = at(JSON.parse(textOf('package.json')), 'version');
  expect(at(parse(textOf(chart, 'Chart.yaml')), 'appVersion')).toBe(version);
  expect(textOf('Dockerfile')).toContain(`\nARG VERSION=${String(version)}\n`);
});

it('values and schema name the same keys, and the schema contains that of the configuration (npm run generate)', () => {
  const schema = textOf(chart, 'values.schema.json');
  const named = Object.keys(record(JSON.parse(schema), 'properties')).filter((name) => name !== 'global');
  expect(Object.keys(record(parse(textOf(chart, 'values.yaml')))).sort()).toEqual(named.sort());
  expect(withConfigSchema(schema)).toBe(schema);
});

describe('of the examples', () => {
  const inReadme = (file: string): string =>
    blocksOf(textOf(chart, 'README.md'), 'yaml').find(({ info }) => info === file)?.text ?? '';
  const forSandbox = inReadme('my-values.yaml').replaceAll('production', 'sandbox');
  /** The comment of `config` in values.yaml. */
  const [, comment = ''] =
    /^# The Countersign configuration.*:\n((?:# {3}.*\n)+)/m.exec(textOf(chart, 'values.yaml')) ?? [];

  whenHelm.each([
    ['my-values.yaml', inReadme('my-values.yaml')],
    ['sandbox-values.yaml', forSandbox],
    ['comment.yaml', comment.replace(/^# {3}/gm, '')],
  ])('the chart and Countersign accept %s', (name, text) => {
    expect(text).toContain('tokenSha256');
    const args = ['--values', folder.file(name, text)];
    const { status, stdout, stderr } = template(args);
    expect([status, stderr, stdout.includes('production')]).toEqual([0, '', text.includes('production')]);
    const options = { lookUp: () => undefined, builtIn: builtInOperations };
    expect(validateConfig(configText(args), options)).toMatchObject({ notices: [] });
  });

  whenHelm('the check before an upgrade finds what the chart does not', () => {
    const commands = blocksOf(textOf(chart, 'README.md'), 'sh').find(({ text }) =>
      text.includes('countersign check'),
    );
    symlinkSync(resolve('helm'), folder.at('helm'));
    const programs = `countersign() { "${process.execPath}" "${resolve('src/main.ts')}" "$@"; }\n`;
    const check = (text: string) => {
      folder.file('my-values.yaml', text);
      const options = { cwd: folder.path, encoding: 'utf8' } as const;
      const { status, stdout } = spawnSync('sh', ['-c', programs + commands?.text], options);
      return [status, stdout];
    };
    const good = inReadme('my-values.yaml');
    expect(check(good)).toEqual([0, expect.stringContaining('config.yaml: no problems')]);
    expect(check(good.replace('environments: [production]', 'environments: [prodution]'))).toEqual([
      2,
      expect.stringContaining(
        'callers[0].allow[0].environments[0]: unknown environment; did you mean "production"?',
      ),
    ]);
  });
});

describe('the notes', () => {
  const copy = folder.at('notes');
  beforeAll(() => {
    cpSync(chart, copy, { recursive: true, dereference: true });
    const include = '{{ include (print $.Template.BasePath "/NOTES.txt") . | nindent 2 }}';
    writeFileSync(join(copy, 'templates/notes.yaml'), `kind: Notes\nnotes: |\n  {{- "" }}\n${include}\n`);
  });
  /** What `helm install` prints at the end. */
  const notes = (...args: Parameters<typeof values>): string =>
    String(at(render(values(...args), 'Notes', copy)[0], 'notes'));

  whenHelm('list missing settings, and only those', () => {
    const fresh = notes('default');
    expect(fresh).toContain('http://pay-countersign.payments.svc:8080/sandbox/gw/api/...');
    expect(fresh.match(/^NOTE: .*$/gm)).toEqual([
      'NOTE: config.callers is empty, so all requests are rejected.',
      'NOTE: config.environments.sandbox.baseUrl is https://sandbox.gateway.example, a placeholder.',
      'NOTE: the image is not pinned. Set image.digest.',
    ]);
    expect(notes('vault-kubernetes')).not.toContain('NOTE:');
    const alerts = 'prometheusRule.enabled=true';
    expect(notes('vault-kubernetes', alerts).match(/^NOTE: .*$/gm)).toEqual([
      'NOTE: the alerts link to no runbook. Set config.admin.runbookUrl.',
    ]);
    const runbook = 'config.admin.runbookUrl="https://wiki.test/runbook"';
    expect(notes('vault-kubernetes', alerts, runbook)).not.toContain('NOTE:');
    expect(notes('directory-keys')).not.toContain('vault write');
  });

  whenHelm('create policies and role with the setup script, one policy per environment', () => {
    const script = textOf('deploy/vault/setup.sh');
    const commands = (text: string) => text.match(/^ {2}ENVIRONMENT=.*$/gm)?.map((line) => line.trim());
    const one = notes('vault-kubernetes');
    expect(commands(one)).toEqual([
      'ENVIRONMENT=production ROLE=countersign-production AUTH= sh deploy/vault/setup.sh',
    ]);
    expect(one).toContain('vault write auth/kubernetes-prod/role/countersign-production ');
    expect(one).toContain(' token_policies=countersign-production-proxy\n');
    expect(one).not.toContain('<');
    for (const name of ['ENVIRONMENT', 'ROLE', 'AUTH', 'KV_MOUNT', 'KV_PREFIX'])
      expect(script).toMatch(new RegExp(`^${name}=`, 'm'));
    expect(script).toContain('vault policy write "$ROLE-$1" -');
    const sandbox = '{"baseUrl":"https://sandbox.gateway.test","product":"gw"}';
    const both = notes('vault-kubernetes', `config.environments.sandbox=${sandbox}`);
    expect(commands(both)).toEqual([
      'ENVIRONMENT=production ROLE=countersign-production-production AUTH= sh deploy/vault/setup.sh',
      'ENVIRONMENT=sandbox ROLE=countersign-production-sandbox AUTH= sh deploy/vault/setup.sh',
    ]);
    expect(both).toContain(
      ' token_policies=countersign-production-production-proxy,countersign-production-sandbox-proxy\n',
    );
    expect(both).toContain('NOTE: this release reads the keys of all its environments.');
  });

  whenHelm('name the labels of the pods that the network policy allows', () => {
    const callers = [
      { podSelector: { matchLabels: { app: 'shop' } } },
      { namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'In', values: ['pay', 'shop'] }] } },
      { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } },
    ];
    expect(notes('default')).toContain('  pods labeled countersign/caller=true in all namespaces\n');
    expect(notes('default', `networkPolicy.callers=${JSON.stringify(callers)}`)).toContain(
      '  pods labeled app=shop in this namespace\n  all pods in namespaces labeled team In pay|shop\n  addresses in 10.0.0.0/8 except 10.1.0.0/16\n',
    );
    expect(notes('default', 'networkPolicy.callers=[]')).toContain(':\n  none\n');
  });
});

type Rejection = readonly [what: string, message: string, ...settings: string[]];

/** All mistakes are made at once: the chart reports each. */
function testRejections(name: string, rows: readonly Rejection[]): void {
  const args = values('minimal', ...rows.flatMap(([, , ...settings]) => settings));
  whenHelm.each(rows)(`${name}: the chart rejects %s`, (_what, message) => {
    const { status, stderr } = template(args);
    expect([status, stderr]).toEqual([1, expect.stringContaining(message)]);
  });
}

const environment = 'config.environments.sandbox';
const vault = 'config.keys.vault.auth';
testRejections('values of a wrong form', [
  ['an unknown key', "additional properties 'replicas' not allowed", 'replicas=2'],
  ['an unknown key inside', "additional properties 'sha' not allowed", 'image.sha=1'],
  ['a digest that is none', '/image/digest', 'image.digest="latest"'],
  ['a port that needs root', '/ports/proxy', 'ports.proxy=80'],
  ['a root user', '/podSecurityContext/runAsUser', 'podSecurityContext.runAsUser=0'],
  ['a writable root file system', '/securityContext', 'securityContext.readOnlyRootFilesystem=false'],
  ['TLS without a Secret', '/tls/secretName', 'tls.enabled=true'],
  ['TLS on the admin port without a Secret', '/adminTls/secretName', 'adminTls.enabled=true'],
  ['a TLS version that is never accepted', '/tls/minVersion', 'tls.minVersion="1.1"'],
  ['an audit trail without its Secret', "'/audit/secretName': minLength", 'audit.enabled=true'],
  [
    'a port that the chart sets itself',
    "/config/proxy/port': value must be 'absent, ",
    'config.proxy.port=1',
  ],
  ['an admin port that the chart sets itself', 'use ports.admin of the chart', 'config.admin.port=1'],
  ['TLS that the chart sets', 'use tls.enabled and tls.secretName', 'config.proxy.tls.minVersion=1.3'],
  [
    'TLS of the admin port',
    'use adminTls.enabled and adminTls.secretName',
    'config.admin.tls.minVersion=1.3',
  ],
  ['an audit folder', 'use audit.enabled and audit.volume of the chart', 'config.audit.directory="/audit"'],
  ['an audit key', 'use audit.enabled and audit.secretName of the chart', 'config.audit.keyFile="/key"'],
  ['a Vault token in the open', '/config/keys/vault/auth/token', `${vault}.token="hvs.x"`],
  ['a token lifetime that Kubernetes rejects', '/vaultToken', 'vaultToken.expirationSeconds=60'],
  ['an empty peer, which would be everybody', '/networkPolicy/callers/0', 'networkPolicy.callers=[{}]'],
  ['a login that climbs', '/keySecrets/0/login', 'keySecrets[0].login=".."'],
  ['an unknown threshold', "'skew' not allowed", 'prometheusRule.thresholds.skew=1'],
  ['a ratio above 1', '/thresholds/saturationRatio', 'prometheusRule.thresholds.saturationRatio=80'],
  ['a removed value', 'set config.admin.runbookUrl', 'prometheusRule.runbookUrlPrefix="https://wiki/"'],
  ['a misspelled section', "'/config': additional properties 'kees' not allowed", 'config.kees={}'],
  ['a removed option', "value must be 'absent, since it was removed", `${environment}.canaryEndpoint="77"`],
  [
    'a variable as the request timeout',
    '/sandbox/timeouts/request',
    `${environment}.timeouts.request="\${LIMIT}"`,
  ],
  ['a variable as the shutdown timeout', '/timeouts/shutdown', 'config.proxy.timeouts.shutdown="${LIMIT}"'],
]);

testRejections('no environments', [['none', '/config/environments', 'config.environments={}']]);

const secretFile = '{"name":"ca","secretName":"vault-ca"}';
const keySecret = '{"environment":"sandbox","login":"acme","secretName":"acme","entries":["control_key"]}';
const host = `${environment}.baseUrl="https://\${GATEWAY_HOST}"`;
const callers = [
  { name: 'a', credentials: [{ tokenSha256: 'a'.repeat(64) }] },
  { name: 'b', credentials: [{ jwt: { issuer: 'i', subject: 's' } }] },
  { name: 'c', credentials: [{ certificateDns: 'c' }] },
];
testRejections('values that do not fit', [
  [
    'a scrape timeout above the interval',
    'serviceMonitor.scrapeTimeout (10s) is longer than serviceMonitor.interval (5s)',
    'serviceMonitor.enabled=true',
    'serviceMonitor.interval="5s"',
  ],
  [
    'metrics that need a client certificate, without that of Prometheus',
    'adminTls.clientCa requires a client certificate for metrics',
    'adminTls={"enabled":true,"secretName":"admin-tls","clientCa":true}',
  ],
  ['the same port twice', 'ports.proxy and ports.admin are both 8080', 'ports.admin=8080'],
  [
    'Services of IPv6 before pods of IPv4',
    'listenHost 0.0.0.0 is IPv4 alone, and the Services have IPv6',
    'listenHost="0.0.0.0"',
    'ipFamilies=["IPv6"]',
  ],
  ['upper case in fullnameOverride', 'rejects "Payments" as a Service name', 'fullnameOverride="Payments"'],
  [
    'two secretFiles with the same name',
    'secretFiles has two entries named "ca"',
    `secretFiles=[${secretFile},${secretFile}]`,
  ],
  [
    'two keySecrets for one file',
    'keySecrets has two sources for sandbox/acme/control_key',
    `keySecrets=[${keySecret},${keySecret}]`,
  ],
  [
    'a number as the value of an environment variable',
    'the value of UV_THREADPOOL_SIZE in extraEnv is not a string',
    'extraEnv=[{"name":"UV_THREADPOOL_SIZE","value":8}]',
  ],
  [
    'callers with bearer tokens on a port without TLS',
    '- a, b would send a bearer token without TLS: set tls.enabled and tls.secretName',
    `config.callers=${JSON.stringify(callers)}`,
  ],
  [
    'an egress proxy that the network policy would block',
    'would block the egressProxy of config: set networkPolicy.egressProxy.to to its address',
    'networkPolicy.enabled=true',
    `${environment}.egressProxy={"url":"http://egress.internal:3128"}`,
  ],
  [
    'an audit section without its key',
    'config.audit has no key: set audit.enabled',
    'config.audit={"required":true}',
  ],
  [
    'claims of order IDs in the memory of several pods',
    'config.payments.once.store is memory, which several pods do not share',
    'replicaCount=2',
    'config.payments={"once":{"store":"memory"}}',
  ],
  ['a variable that is not set', 'config uses ${GATEWAY_HOST}, but GATEWAY_HOST is not set', host],
]);

testRejections('other values that do not fit', [
  ['upper case in nameOverride', 'rejects "pay-Signer" as a Service name', 'nameOverride="Signer"'],
  [
    'an audit trail on standard output that is to be on the disk',
    'config.audit.sync needs a directory: set audit.volume',
    'audit={"enabled":true,"secretName":"audit"}',
    'config.audit={"sync":true}',
  ],
  [
    'a store of claims that the network policy would block',
    'would block config.payments.once.store: set networkPolicy.claims.to to its address',
    'networkPolicy.enabled=true',
    'config.payments={"once":{"store":"rediss://redis.internal","keyFile":"/k"}}',
  ],
]);

testRejections('autoscaling', [
  ['more pods at least than at most', 'maxReplicas', 'autoscaling={"enabled":true,"minReplicas":99}'],
]);

whenHelm(
  'variables of Secrets and extraEnv replace a number, duration, choice or pattern; keys come from two Secrets',
  () => {
    const secrets = ['GATEWAY_HOST', 'VAULT_TOKEN'].map((name) => ({ name, secretName: 's', key: 'k' }));
    const other = keySecret
      .replace('control_key', 'private_key.pem')
      .replace('"acme","entries', '"rsa","entries');
    const args = values(
      'minimal',
      host,
      `secretEnv=${JSON.stringify(secrets)}`,
      `keySecrets=[${keySecret},${other}]`,
      'extraEnv=[{"name":"LIMIT","value":"5"}]',
      'config.admin.maxConnections="${LIMIT}"',
      'config.keys.cache.ttl="${LIMIT}"',
      'config.log.level="${LIMIT}"',
      `${environment}.product="\${LIMIT}"`,
      // Escaped, it is none.
      'config.admin.runbookUrl="https://wiki.test/$${x}"',
    );
    expect(template(args)).toMatchObject({ status: 0, stderr: '' });
    expect(configText(args).match(/\$\{LIMIT\}/g)).toHaveLength(4);
  },
);
