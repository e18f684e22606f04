import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { jwtProblems } from '../../src/auth/jwt/jwt-error.ts';
import { parseToken } from '../../src/auth/jwt/parse-token.ts';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { at, configText, list, record, renderOne, template, values } from '../support/helm.ts';
import { itWith } from '../support/requires.ts';

const page = readFileSync(new URL('../../docs/callers.md', import.meta.url), 'utf8');
const configurations = blocksOf(page, 'yaml')
  .map(({ text }) => text)
  .filter((text) => text.startsWith('jwtIssuers:'));

const base = `
environments:
  sandbox: { baseUrl: "https://sandbox.gateway.example", product: gw }
  production: { baseUrl: "https://gateway.example", product: gw }
keys: { source: directory, directory: keys }
proxy: { host: 0.0.0.0, tls: { certFile: c, keyFile: k } }
`;

it('has a configuration for Kubernetes and one for OpenID Connect', () => {
  expect(configurations).toHaveLength(2);
});

it.each(configurations)('has a configuration that is valid: %#', (text) => {
  const checked = validateConfig(base + text, { lookUp: () => undefined, builtIn: builtInOperations });
  expect(checked).toHaveProperty('config');
});

it('lists every cause for which a token is rejected', () => {
  const rows = [...page.matchAll(/^\| (`jwt-.*?) \|/gm)].flatMap(([, cells = '']) =>
    [...cells.matchAll(/`([^`]+)`/g)].map(([, cause = '']) => cause),
  );
  expect(rows).toEqual(jwtProblems);
});

it('names every header member that rejects a token', () => {
  const [, members = ''] = /^\| `jwt-header` \| (.*?), another `typ`/m.exec(page) ?? [];
  const named = [...members.matchAll(/`(\w+)`/g)].map(([, member = '']) => member);
  expect(named.length).toBeGreaterThan(5);
  for (const member of named) {
    const header = Buffer.from(JSON.stringify({ alg: 'RS256', [member]: '' })).toString('base64url');
    expect(() => parseToken(`${header}.e30.AAAA`)).toThrow('jwt-header');
  }
  const plain = Buffer.from('{"alg":"RS256"}').toString('base64url');
  expect(() => parseToken(`${plain}.e30.AAAA`)).not.toThrow();
});

describe('the service in Kubernetes', () => {
  const [cluster = ''] = configurations;
  const yaml = blocksOf(page, 'yaml').map(({ text }) => text);
  const parsed = (start: string): unknown => parse(yaml.find((text) => text.startsWith(start)) ?? '');
  const pod = parsed('metadata:');
  const curl = blocksOf(page, 'sh').find(({ text }) => text.startsWith('curl '))?.text ?? '';
  const { proxy: _set, ...config } = record(parse(base + cluster));
  const given = { config, ...record(parsed('tls:')) };
  const args = [
    ...values('default'),
    ...Object.entries(given).flatMap(([name, value]) => ['--set-json', `${name}=${JSON.stringify(value)}`]),
  ];

  itWith('helm')('is given to the chart with values that it accepts', () => {
    expect(given).toHaveProperty('tls');
    expect(template(args)).toMatchObject({ status: 0, stderr: '' });
    const port = at(renderOne(args, 'Service', 'pay-countersign'), 'spec', 'ports', 0, 'port');
    expect(curl).toContain(`https://countersign.payments.svc:${String(port)}/production/gw/`);
  });

  itWith('helm')('has the label that the network policy admits', () => {
    const [callers] = list(renderOne(args, 'NetworkPolicy'), 'spec', 'ingress');
    const admitted = record(callers, 'from', 0, 'podSelector', 'matchLabels');
    expect(Object.keys(admitted)).toHaveLength(1);
    expect(at(pod, 'metadata', 'labels')).toEqual(admitted);
  });

  it('sends a token with the audience and the subject of the configuration', () => {
    const issuer = at(parse(cluster), 'jwtIssuers', 'cluster');
    const sources = list(pod, 'spec', 'volumes', 0, 'projected', 'sources');
    expect(at(sources[0], 'serviceAccountToken', 'audience')).toBe(at(issuer, 'audience'));
    const { subject } = record(parse(cluster), 'callers', 0, 'credentials', 0, 'jwt');
    expect(subject).toBe(`system:serviceaccount:pay:${String(at(pod, 'spec', 'serviceAccountName'))}`);
  });

  it('sends the token, and trusts the CA, of its volume', () => {
    const mounted = at(pod, 'spec', 'containers', 0, 'volumeMounts', 0, 'mountPath');
    expect(curl).toContain(`--cacert ${String(mounted)}/ca.crt`);
    expect(curl).toContain(`$(cat ${String(mounted)}/token)`);
  });
});

itWith('helm')('configures the cluster as the example values of the chart do', () => {
  const rendered = configText(values('vault-kubernetes'));
  for (const path of ['kubernetes-api/ca.crt', 'kubernetes-api/token', '/openid/v1/jwks']) {
    expect(page).toContain(path);
    expect(rendered).toContain(path);
  }
});
