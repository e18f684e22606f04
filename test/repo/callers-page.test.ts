import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { parseToken } from '../../src/auth/jwt/parse-token.ts';
import { validateConfig } from '../../src/config/validate.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { configText, values } from '../support/helm.ts';
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
  const source = readFileSync(new URL('../../src/auth/jwt/jwt-error.ts', import.meta.url), 'utf8');
  const causes = [...source.matchAll(/\| '(jwt-[a-z-]+)'/g)].map(([, cause = '']) => cause);
  const rows = [...page.matchAll(/^\| (`jwt-.*?) \|/gm)].flatMap(([, cells = '']) =>
    [...cells.matchAll(/`([^`]+)`/g)].map(([, cause = '']) => cause),
  );
  expect(rows).toEqual(causes);
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

itWith('helm')('configures the cluster as the example values of the chart do', () => {
  const rendered = configText(values('vault-kubernetes'));
  for (const path of ['kubernetes-api/ca.crt', 'kubernetes-api/token', '/openid/v1/jwks']) {
    expect(page).toContain(path);
    expect(rendered).toContain(path);
  }
});
