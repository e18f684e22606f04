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
