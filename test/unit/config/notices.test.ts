import { describe, expect, it } from '@jest/globals';
import { check, digest, exampleNames, exampleText, exampleVariables, minimal } from './checking.ts';

/** `LINE path: message` for each notice. */
function noticesOf(text: string, variables?: Readonly<Record<string, string>>): string[] {
  const checked = check(text, variables);
  if ('problems' in checked) throw new Error(JSON.stringify(checked.problems));
  return checked.notices.map(({ path, line, message }) => `${line} ${path}: ${message}`);
}

const grantOf = (operations: string) => `
environments:
  sandbox: { baseUrl: "https://sandbox.example", product: gw }
  production: { baseUrl: "https://gateway.example", product: gw }
keys: { source: directory, directory: keys }
callers:
  - name: payouts
    credentials: [{ tokenSha256: ${digest} }]
    allow:
      - { environments: [production], operations: [${operations}], logins: [acme] }
`;

describe('a notice', () => {
  it.each(exampleNames)('is not what an example has: %s', (name) => {
    expect(noticesOf(exampleText(name), exampleVariables)).toEqual([]);
  });

  it('says that a caller in dry-run may do everything', () => {
    const text = `${grantOf('order-status')}  - { name: trial, mode: dry-run, credentials: [{ anonymous: true }] }\n`;
    expect(noticesOf(text)).toEqual([
      '11 callers[1].mode: lets through every request, also what the grants do not allow: set enforce when the log has no more requests with the decision would-deny',
    ]);
  });

  it('does not repeat the rules of built-in operations', () => {
    expect(noticesOf(minimal)).toEqual([]);
    expect(noticesOf(grantOf('"*"'))).toEqual([]);
  });

  it('says that a caller has no grants', () => {
    const text = `${grantOf('order-status')}  - { name: idle, credentials: [{ anonymous: true }] }\n`;
    expect(noticesOf(text)).toEqual([
      '11 callers[1]: has no grants, so all its requests get 403: say in allow what it may do, or remove it',
    ]);
  });

  it('says that nobody may use the login of an endpoint', () => {
    const withEndpoints = (grants: string, more = '') => `
environments:
  sandbox: { baseUrl: "https://sandbox.example", product: gw, endpoints: { "1": acme, "2": beta, "3": beta } }
keys: { source: directory, directory: keys }
callers:
  - { name: a, credentials: [{ tokenSha256: ${digest} }], allow: [${grants}] }
${more}`;
    const grant = (logins: string, environment = 'sandbox') =>
      `{ environments: ["${environment}"], operations: [transfer], logins: [${logins}] }`;
    const unused =
      '3 environments.sandbox.endpoints["2"]: leads to a login that no caller may use in this environment: grant it to one, or remove the endpoint';
    expect(noticesOf(withEndpoints(grant('acme')))).toEqual([unused]);
    expect(noticesOf(withEndpoints(grant('acme, "bet*"')))).toEqual([]);
    expect(noticesOf(withEndpoints(`${grant('acme')}, ${grant('"*"', '*')}`))).toEqual([]);
    const trial = '  - { name: b, mode: dry-run, credentials: [{ anonymous: true }] }\n';
    expect(noticesOf(withEndpoints(grant('acme'), trial))).toEqual([
      expect.stringContaining('callers[1].mode'),
    ]);
  });

  it.each([
    ['https://gateway.example/gw', true],
    ['https://gateway.example/pay/gw/', true],
    ['https://gateway.example/gw/api', true],
    ['https://gateway.example/gw/api/v4', true],
    ['https://gateway.example/gw/api/v4/transfer', true],
    ['https://gateway.example/%67w', true],
    ['https://gateway.example', false],
    ['https://gateway.example/gw2', false],
    ['https://gateway.example/gw/pay', false],
    ['https://gw.example', false],
    ['https://gw', false],
    ['https://gateway.example/api/pay', false],
  ])('says that the product is already in %s: %s', (baseUrl, isNoticed) => {
    const text = `environments: { a: { baseUrl: "${baseUrl}", product: gw } }\nkeys: { source: directory, directory: keys }\n`;
    const message = expect.stringMatching(/^1 environments\.a\.baseUrl: already contains the product/);
    expect(noticesOf(text)).toEqual(isNoticed ? [message] : []);
  });

  it.each([
    ['secret/data', true],
    ['team/kv/metadata', true],
    ['secret', false],
    ['data', false],
    ['secret/database', false],
  ])('says that a mount has a part that Countersign adds: %s %s', (mount, isNoticed) => {
    const text = `environments: { a: { baseUrl: "https://gateway.example", product: gw } }
keys: { source: vault, vault: { address: "https://vault.example:8200", mount: ${mount}, auth: { method: token, token: x } } }
`;
    const message = expect.stringMatching(
      /^2 keys\.vault\.mount: ends in a part that Countersign adds itself/,
    );
    expect(noticesOf(text)).toEqual(isNoticed ? [message] : []);
  });

  it.each([
    [
      '{ shutdown: 10s }',
      '',
      [
        '5 proxy.timeouts.shutdown: is shorter than timeouts.request of sandbox: a shutdown can cut off requests, and the outcome of a payment is unknown then',
      ],
    ],
    [
      '{}',
      ', timeouts: { request: 40s }',
      [expect.stringContaining('is shorter than timeouts.request of sandbox')],
    ],
    ['{ shutdown: 40s }', ', timeouts: { request: 40s }', []],
  ])('says that a shutdown does not wait for requests: %s %s', (timeouts, more, expected) => {
    const text = `${minimal.replace('product: gw', `product: gw${more}`)}proxy: { timeouts: ${timeouts} }\n`;
    expect(noticesOf(text)).toEqual(expected);
  });

  it('says that claims in memory are of one instance', () => {
    const once = (store: string) => `${minimal}payments: { once: { ${store} } }\n`;
    expect(noticesOf(once('store: memory'))).toEqual([
      expect.stringContaining('claims order IDs in each instance alone'),
    ]);
    expect(noticesOf(once('store: "redis://127.0.0.1", keyFile: /k'))).toEqual([]);
  });

  it('says that an operation that looks new is built in', () => {
    const withOperation = (fields: string) => `${minimal}operations: { transfer: { ${fields} } }\n`;
    const full = 'path: "/api/v4/pay/{endpoint}", signature: RSA-SHA256, loginFrom: header';
    expect(noticesOf(withOperation(full))).toEqual([
      '5 operations.transfer: is the name of a built-in operation, of which it overrides fields and keeps readOnly, retryOn403, once, parameters, allowRepeatedParameters: use another name if this is another operation',
    ]);
    expect(noticesOf(withOperation('signature: HMAC-SHA1'))).toEqual([]);
    const own = minimal.replace('product: gw', `product: gw, operations: { transfer: { ${full} } }`);
    expect(noticesOf(own)).toEqual([
      expect.stringContaining('3 environments.sandbox.operations.transfer: is the'),
    ]);
    expect(noticesOf(`${minimal}operations: { refund: { ${full.replace('pay', 'refund')} } }\n`)).toEqual([]);
  });

  it('says which password for an egress proxy is sent unencrypted', () => {
    const proxy = (url: string, more = ''): string => `egressProxy: { url: "${url}"${more} }`;
    const withPassword = ', username: u, password: p';
    const textWith = (fields: string): string =>
      `environments: { a: { baseUrl: "https://gateway.example", product: gw, ${fields} } }\nkeys: { source: directory, directory: keys }\n`;
    const path = '1 environments.a.egressProxy.url: sends the password for the proxy unencrypted';
    expect(noticesOf(textWith(proxy('http://egress.internal', withPassword)))).toEqual([
      expect.stringContaining(path),
    ]);
    for (const fields of [
      proxy('http://egress.internal'),
      proxy('https://egress.internal', withPassword),
      proxy('http://127.0.0.1:3128', withPassword),
    ])
      expect(noticesOf(textWith(fields))).toEqual([]);
    const vault = `keys: { source: vault, vault: { address: "https://v", auth: { method: token, tokenFile: t }, ${proxy('http://e', withPassword)} } }`;
    const issuers = `jwtIssuers: { i: { issuer: "https://i", audience: a, ${proxy('http://e', withPassword)} } }`;
    const others = `environments: { a: { baseUrl: "https://gateway.example", product: gw } }\n${vault}\n${issuers}\n`;
    expect(noticesOf(others)).toHaveLength(2);
  });
});
