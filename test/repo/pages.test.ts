import { globSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { jwtProblems } from '../../src/auth/jwt/jwt-error.ts';
import { parseToken } from '../../src/auth/jwt/parse-token.ts';
import { loadConfig, validateConfig } from '../../src/config/load.ts';
import { errorTable } from '../../src/errors.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { startOnly } from '../../src/service/reload.ts';
import { run } from '../support/cli.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { Folder } from '../support/folder.ts';
import {
  at,
  chart,
  configIn,
  configText,
  helm,
  list,
  record,
  renderOne,
  template,
  values,
} from '../support/helm.ts';
import { itWith } from '../support/requires.ts';
import { root, sourcesIn } from '../support/sources.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const namesIn = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
const digest = '2f77668a9dfbf8d5848b9eeb4a7145ca94c6ed9236e4a773f6dcafa5132b2f91';
const check = (text: string) => validateConfig(text, { lookUp: () => undefined, builtIn: builtInOperations });

it('config has the examples, which are valid', async () => {
  const isExample = (name: string) =>
    read(`config/${name}`).startsWith('# yaml-language-server: $schema=./schema.json');
  const examples = readdirSync(join(root, 'config')).filter(isExample).sort();
  expect(examples).toEqual(['directory.yaml', 'embedded.yaml', 'production.yaml', 'vault.yaml']);
  for (const name of examples) {
    // Both variables of the demo.
    const options = { lookUp: () => 'http://127.0.0.1:8090', skipFiles: true };
    const checked = await loadConfig(join(root, 'config', name), builtInOperations, options);
    expect([name, checked]).toEqual([name, expect.objectContaining({ config: expect.anything() })]);
  }
});

it('docs/configuration.md lists every field that needs a restart, and no other', () => {
  const [, sentence = ''] =
    /Fields that\s+need a restart are ([^]*?):/.exec(read('docs/configuration.md')) ?? [];
  expect(namesIn(sentence).sort()).toEqual(Object.keys(startOnly).sort());
});

it('docs/errors.md says which statuses have Retry-After, as the code does', () => {
  const created = sourcesIn('src/**/*.ts').flatMap(({ text }) =>
    [...text.matchAll(/(?:new ProxyError|super)\(\s*'([a-z-]+)'[^;]*?\);/g)].map(([call, reason = '']) => ({
      call,
      reason,
    })),
  );
  const [, ...stated] =
    /\*\*Retry-After\.\*\* Errors with status (\d+) or (\d+) /.exec(read('docs/errors.md')) ?? [];
  const retryable = Object.entries(errorTable)
    .filter(([, { status }]) => stated.includes(String(status)))
    .map(([reason]) => reason);
  expect(retryable.length).toBeGreaterThan(1);
  for (const reason of retryable) expect(created.map((one) => one.reason)).toContain(reason);
  const wrong = created.filter(
    ({ reason, call }) => retryable.includes(reason) !== call.includes('retryAfter'),
  );
  expect(wrong).toEqual([]);
});

describe('the commands of Countersign in all pages', () => {
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...globSync('{docs,deploy,helm}/**/*.md', { cwd: root }),
  ];
  const called = [
    ...pages
      .map(read)
      .join('\n')
      .matchAll(
        /countersign(?: --)? ((?:keys |callers |audit |payments )?(?:serve|demo rotate|demo|simulate|status|check|explain|list|generate|import|verify|rollback|token|query|show|release))\b((?:\\\n|[^\n`|])*)/g,
      ),
  ];
  const calls = Map.groupBy(called, ([, name = '']) => name);

  it.each([...calls])('%s has the flags', async (name, all) => {
    const flags = all.flatMap(([, , text = '']) => text.match(/(?<=\s)--[a-z][a-z-]*/g) ?? []);
    const { out } = await run([...name.split(' '), '--help']);
    expect(flags.filter((flag) => !out.includes(`${flag} `))).toEqual([]);
  });
});

describe('docs/production.md', () => {
  const page = read('docs/production.md');

  const unit = read('deploy/systemd/countersign.service');
  const ofMachine = read('config/production.yaml');
  const ofCluster = values('production');

  it('names every file of its configuration for a virtual machine, with which the unit starts', async () => {
    const folder = new Folder();
    try {
      const installed = [...page.matchAll(/^install .* -t (\S+) (.*)$/gm)].flatMap(
        ([, to = '', names = '']) => names.split(' ').map((name) => `${to}/${name}`),
      );
      const { certFile, keyFile } = new Ca(folder.path, 'ca').issue('tls');
      const contents: Record<string, string> = {
        'config.yaml': ofMachine.replaceAll(/\/etc\/countersign|\/var\/lib\/countersign/g, folder.path),
        'operations.yaml': read('config/operations.yaml'),
        'vault-ca.crt': readFileSync(certFile, 'utf8'),
        'tls.crt': readFileSync(certFile, 'utf8'),
        'tls.key': readFileSync(keyFile, 'utf8'),
        'audit.key': digest,
      };
      for (const path of installed) {
        const name = path.replace('/etc/countersign/', '');
        writeFileSync(folder.at(name), contents[name] ?? name, { mode: 0o600 });
      }
      const [, made = ''] = /^StateDirectory=(.*)$/m.exec(unit) ?? [];
      for (const name of made.split(' '))
        mkdirSync(folder.at(name.replace('countersign', '.')), { recursive: true });
      const [, checked = ''] = /^ExecStartPre=\S+ check --config (.*)$/m.exec(unit) ?? [];
      expect(installed).toContain(checked);
      const options = { lookUp: () => undefined, certificatesAt: Date.now() };
      const loaded = await loadConfig(folder.at('config.yaml'), builtInOperations, options);
      expect(loaded).toEqual(expect.objectContaining({ notices: [] }));
    } finally {
      folder.remove();
    }
  });

  itWith('helm')('has the same configuration for Kubernetes, with Secrets that its comments make', () => {
    const [machine, cluster]: unknown[] = [parse(ofMachine), configIn(ofCluster)];
    for (const section of ['environments', 'callers'])
      expect(at(cluster, section)).toEqual(at(machine, section));
    expect(at(cluster, 'audit', 'required')).toBe(at(machine, 'audit', 'required'));
    const text = read('helm/countersign/ci/production-values.yaml');
    const made = [...text.matchAll(/^# .* create secret (?:generic|tls) (\S+)/gm)].map(
      ([, name = '']) => name,
    );
    const used = [...text.matchAll(/secretName: ([\w-]+)/g)].map(([, name = '']) => name);
    expect(made.sort()).toEqual(used.sort());
  });

  itWith('helm')('binds the role in Vault to the pods that it installs', () => {
    const setup = /ENVIRONMENT=(\S+) .*KUBERNETES_NAMESPACE=(\S+) /.exec(page) ?? [];
    const install = /^helm install (\S+) .*--namespace (\S+)/m.exec(page) ?? [];
    expect(setup[2]).toBe(install[2]);
    expect(at(configIn(ofCluster), 'keys', 'vault', 'auth', 'role')).toBe(`countersign-${setup[1]}`);
    const line = ['template', String(install[1]), chart, '--kube-version', '1.34.0', ...ofCluster];
    const [, bound = ''] = /"\$KUBERNETES_SERVICE_ACCOUNT" (\S+)$/m.exec(read('deploy/vault/setup.sh')) ?? [];
    expect(helm(line).stdout).toContain(`\n      serviceAccountName: ${bound}\n`);
  });

  it('has the commands of pages whose commands are run', () => {
    // By vault-setup, keys-command-page, helm-chart, release.
    const texts = [
      'deploy/vault/README.md',
      'helm/countersign/README.md',
      'deploy/systemd/countersign.service',
    ].map(read);
    const commands = blocksOf(page, 'sh').flatMap(({ text }) => text.trim().split('\n'));
    expect(commands.length).toBeGreaterThan(5);
    expect(commands.filter((command) => !texts.some((text) => text.includes(command)))).toEqual([]);
  });
});

describe('docs/callers.md', () => {
  const page = read('docs/callers.md');
  const yaml = blocksOf(page, 'yaml').map(({ text }) => text);
  const [cluster = '', oidc = ''] = yaml.filter((text) => text.startsWith('jwtIssuers:'));
  const base = `
environments:
  sandbox: { baseUrl: "https://sandbox.gateway.example", product: gw }
  production: { baseUrl: "https://gateway.example", product: gw }
keys: { source: directory, directory: keys }
proxy: { host: 0.0.0.0, tls: { certFile: c, keyFile: k } }
`;

  it('has valid configurations for Kubernetes and OpenID Connect', () => {
    for (const text of [cluster, oidc]) {
      expect(text).not.toBe('');
      expect(check(base + text)).toHaveProperty('config');
    }
  });

  it('lists every cause for which a token is rejected, and every header member that does', () => {
    const rows = [...page.matchAll(/^\| (`jwt-.*?) \|/gm)].flatMap(([, cells = '']) => namesIn(cells));
    expect(rows).toEqual(jwtProblems);
    const [, members = ''] = /^\| `jwt-header` \| (.*?), another `typ`/m.exec(page) ?? [];
    const parsed = (header: object) => () =>
      parseToken(`${Buffer.from(JSON.stringify(header)).toString('base64url')}.e30.AAAA`);
    expect(namesIn(members).length).toBeGreaterThan(5);
    for (const member of namesIn(members))
      expect(parsed({ alg: 'RS256', [member]: '' })).toThrow('jwt-header');
    expect(parsed({ alg: 'RS256' })).not.toThrow();
  });

  const parsed = (start: string): unknown => parse(yaml.find((text) => text.startsWith(start)) ?? '');
  const pod = parsed('metadata:');
  const curl = blocksOf(page, 'sh').find(({ text }) => text.startsWith('curl '))?.text ?? '';

  itWith('helm')('shows a service in Kubernetes with values and a label that the chart accepts', () => {
    const { proxy: _set, ...config } = record(parse(base + cluster));
    const tls = record(parsed('tls:'));
    const settings = Object.entries({ config, ...tls }).map(
      ([name, value]) => `${name}=${JSON.stringify(value)}`,
    );
    const args = values('default', ...settings);
    expect(tls).toHaveProperty('tls');
    expect(template(args)).toMatchObject({ status: 0, stderr: '' });
    const port = at(renderOne(args, 'Service', 'pay-countersign'), 'spec', 'ports', 0, 'port');
    expect(curl).toContain(`https://countersign.payments.svc:${String(port)}/production/gw/`);
    const [callers] = list(renderOne(args, 'NetworkPolicy'), 'spec', 'ingress');
    const admitted = record(callers, 'from', 0, 'podSelector', 'matchLabels');
    expect(Object.keys(admitted)).toHaveLength(1);
    expect(at(pod, 'metadata', 'labels')).toEqual(admitted);
    const example = configText(values('vault-kubernetes'));
    for (const path of ['kubernetes-api/ca.crt', 'kubernetes-api/token', '/openid/v1/jwks'])
      expect([page.includes(path), example.includes(path)]).toEqual([true, true]);
  });

  it('shows the token with audience and subject of the configuration, and the CA, of its volume', () => {
    const config: unknown = parse(cluster);
    const [source] = list(pod, 'spec', 'volumes', 0, 'projected', 'sources');
    const audience = at(config, 'jwtIssuers', 'cluster', 'audience');
    expect(at(source, 'serviceAccountToken', 'audience')).toBe(audience);
    const subject = at(config, 'callers', 0, 'credentials', 0, 'jwt', 'subject');
    expect(subject).toBe(`system:serviceaccount:pay:${String(at(pod, 'spec', 'serviceAccountName'))}`);
    const mounted = at(pod, 'spec', 'containers', 0, 'volumeMounts', 0, 'mountPath');
    expect(curl).toContain(`--cacert ${String(mounted)}/ca.crt`);
    expect(curl).toContain(`$(cat ${String(mounted)}/token)`);
  });
});
