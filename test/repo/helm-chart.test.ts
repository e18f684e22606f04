import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { at, chart, ciValues, helm, record, render, template, values } from '../support/helm.ts';
import { itWith } from '../support/requires.ts';

const whenHelm = itWith('helm');
const folder = mkdtempSync(join(tmpdir(), 'countersign-chart-'));
afterAll(() => rmSync(folder, { recursive: true }));

whenHelm.each(ciValues)('helm lint --strict and helm template accept the %s values', (name) => {
  const linted = helm(['lint', '--strict', chart, '--kube-version', '1.34.0', ...values(name)]);
  expect({ status: linted.status, errors: /\[(ERROR|WARNING)\]/.exec(linted.stdout) }).toEqual({
    status: 0,
    errors: null,
  });
  expect(template(values(name))).toMatchObject({ status: 0, stderr: '' });
});

whenHelm('the packaged chart renders the same as the directory, with rules and dashboards', () => {
  expect(helm(['package', chart, '--destination', folder])).toMatchObject({ status: 0 });
  const everything = values('everything');
  const packaged = render(everything, undefined, join(folder, 'countersign-0.1.0.tgz'));
  expect(packaged).toEqual(render(everything));
});

whenHelm('the packaged chart contains no recording, picture, source or test', () => {
  expect(helm(['package', chart, '--destination', folder])).toMatchObject({ status: 0 });
  const archive = join(folder, 'countersign-0.1.0.tgz');
  const packed = execFileSync('tar', ['--list', '--file', archive], { encoding: 'utf8' }).trim().split('\n');
  const linked = ['grafana/*.json', 'prometheus/*.rules.yaml'].flatMap((pattern) =>
    globSync(`deploy/${pattern}`).map((file) =>
      file.replace('deploy/grafana', 'files/dashboards').replace('deploy', 'files'),
    ),
  );
  const own = globSync(['*.md', '*.yaml', '*.json', 'files/*.*', 'templates/**/*.*'], { cwd: chart });
  const expected = ['.helmignore', ...own, ...linked].map((file) => `countersign/${file}`);
  expect(packed.sort()).toEqual(expected.sort());
});

whenHelm.each([
  ['an unknown key', ['replicas=2'], "additional properties 'replicas' not allowed"],
  ['an unknown key inside', ['image.sha=1'], "additional properties 'sha' not allowed"],
  ['a digest that is none', ['image.digest="latest"'], '/image/digest'],
  ['a port that needs root', ['ports.proxy=80'], '/ports/proxy'],
  ['a root user', ['podSecurityContext.runAsUser=0'], '/podSecurityContext/runAsUser'],
  ['a writable root file system', ['securityContext.readOnlyRootFilesystem=false'], '/securityContext'],
  ['TLS without a Secret', ['tls.enabled=true'], '/tls/secretName'],
  ['TLS on the admin port without a Secret', ['adminTls.enabled=true'], '/adminTls/secretName'],
  ['a TLS version that is never accepted', ['tls.minVersion="1.1"'], '/tls/minVersion'],
  ['a port that the chart sets itself', ['config.proxy.port=1'], '/config/proxy/port'],
  ['an admin port that the chart sets itself', ['config.admin.port=1'], '/config/admin'],
  [
    'TLS of the admin port that the chart sets itself',
    ['config.admin.tls.minVersion=1.3'],
    '/config/admin/tls',
  ],
  ['no environment', ['config.environments={}'], '/config'],
  ['a Vault token in the open', ['config.keys.vault.auth.token="hvs.x"'], '/config/keys/vault/auth/token'],
  ['a token lifetime that Kubernetes rejects', ['vaultToken.expirationSeconds=60'], '/vaultToken'],
  ['an empty peer, which would be everybody', ['networkPolicy.callers=[{}]'], '/networkPolicy/callers/0'],
  ['an upside-down autoscaler', ['autoscaling.enabled=true', 'autoscaling.minReplicas=99'], 'maxReplicas'],
  ['a login that climbs', ['keySecrets[0].login=".."'], '/keySecrets/0/login'],
])('the chart rejects %s', (_what, settings, message) => {
  const rendered = template([
    ...values('minimal'),
    ...settings.flatMap((setting) => ['--set-json', setting]),
  ]);
  expect(rendered.status).toBe(1);
  expect(rendered.stderr).toContain(message);
});

/** What `helm install` prints at the end. */
function notes(args: readonly string[]): string {
  const copy = join(folder, 'notes');
  cpSync(chart, copy, { recursive: true, dereference: true });
  const include = '{{ include (print $.Template.BasePath "/NOTES.txt") . | nindent 2 }}';
  writeFileSync(join(copy, 'templates/notes.yaml'), `kind: Notes\nnotes: |\n  {{- "" }}\n${include}\n`);
  return String(at(render(args, 'Notes', copy)[0], 'notes'));
}

whenHelm('the notes list missing settings, and only those', () => {
  const fresh = notes(values('default'));
  expect(fresh).toContain('http://pay-countersign.payments.svc:8080/sandbox/gw/api/...');
  expect(fresh.match(/^NOTE: .*$/gm)).toEqual([
    'NOTE: config.callers is empty, so all requests are rejected.',
    'NOTE: config.environments.sandbox.baseUrl is https://sandbox.gateway.example, a placeholder.',
    'NOTE: the image is not pinned. Set image.digest.',
  ]);
  expect(notes(values('vault-kubernetes'))).not.toContain('NOTE:');
  expect(notes(values('vault-kubernetes'))).toContain(
    'vault write auth/kubernetes-prod/role/countersign-production ',
  );
  expect(notes(values('directory-keys'))).not.toContain('vault write');
});

whenHelm(
  'the notes say how much an audit trail writes to a volume, and when the kubelet evicts the pod',
  () => {
    const onVolume = (volume: string) =>
      notes([
        ...values('minimal'),
        '--set-json',
        `audit={"enabled":true,"secretName":"audit","volume":${volume}}`,
      ]);
    const room = 'which nothing removes (docs/audit.md). 1 GiB has room for about 800,000\nrequests.';
    expect(onVolume('{"emptyDir":{}}')).toContain(`${room} The kubelet evicts a pod`);
    const claim = onVolume('{"persistentVolumeClaim":{"claimName":"audit"}}');
    expect(claim).toContain(room);
    expect(claim).not.toContain('evicts');
    expect(onVolume('{}')).not.toContain('audit trail');
  },
);

whenHelm('the notes create policies and role with the setup script, one policy per environment', () => {
  const script = readFileSync('deploy/vault/setup.sh', 'utf8');
  const commands = (text: string) => [...text.matchAll(/^ {2}(ENVIRONMENT=.*)$/gm)].map(([, line]) => line);
  const one = notes(values('vault-kubernetes'));
  expect(commands(one)).toEqual([
    'ENVIRONMENT=production ROLE=countersign-production AUTH= sh deploy/vault/setup.sh',
  ]);
  expect(one).toContain(' token_policies=countersign-production-proxy\n');
  expect(one).not.toContain('<');
  for (const name of ['ENVIRONMENT', 'ROLE', 'AUTH', 'KV_MOUNT', 'KV_PREFIX']) {
    expect(script).toMatch(new RegExp(`^${name}=`, 'm'));
  }
  expect(script).toContain('vault policy write "$ROLE-$1" -');
  const second = ['--set', 'config.environments.sandbox.baseUrl=https://sandbox.gateway.test'];
  const both = notes([
    ...values('vault-kubernetes'),
    ...second,
    '--set',
    'config.environments.sandbox.product=gw',
  ]);
  expect(commands(both)).toEqual([
    'ENVIRONMENT=production ROLE=countersign-production-production AUTH= sh deploy/vault/setup.sh',
    'ENVIRONMENT=sandbox ROLE=countersign-production-sandbox AUTH= sh deploy/vault/setup.sh',
  ]);
  expect(both).toContain(
    ' token_policies=countersign-production-production-proxy,countersign-production-sandbox-proxy\n',
  );
  expect(both).toContain('NOTE: this release reads the keys of all its environments.');
});

whenHelm('the notes name the labels of the pods that the network policy allows', () => {
  expect(notes(values('default'))).toContain(
    'connect to the proxy port (networkPolicy.callers):\n' +
      '  pods labeled countersign/caller=true in all namespaces\n',
  );
  const callers = [
    { podSelector: { matchLabels: { app: 'shop' } } },
    { namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'In', values: ['pay', 'shop'] }] } },
    { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } },
  ];
  const given = ['--set-json', `networkPolicy.callers=${JSON.stringify(callers)}`];
  expect(notes([...values('default'), ...given])).toContain(
    '  pods labeled app=shop in this namespace\n' +
      '  all pods in namespaces labeled team In pay|shop\n' +
      '  addresses in 10.0.0.0/8 except 10.1.0.0/16\n',
  );
  expect(notes([...values('default'), '--set-json', 'networkPolicy.callers=[]'])).toContain(':\n  none\n');
});

it('chart, package and image name the same version', () => {
  const version = at(JSON.parse(readFileSync('package.json', 'utf8')), 'version');
  expect(at(parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8')), 'appVersion')).toBe(version);
  expect(readFileSync('Dockerfile', 'utf8')).toContain(`\nARG VERSION=${String(version)}\n`);
});

it('values and schema name the same keys', () => {
  const known: unknown = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'));
  const schema: unknown = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8'));
  const named = Object.keys(record(schema, 'properties')).filter((name) => name !== 'global');
  expect(Object.keys(record(known)).sort()).toEqual(named.sort());
});
