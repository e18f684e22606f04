import { describe, expect, it } from '@jest/globals';
import {
  check,
  digest,
  exampleNames,
  exampleText,
  exampleVariables,
  minimal,
  rows,
  withEnvironment,
  withKeys,
} from './checking.ts';

/** `LINE path: message` for each notice. */
function noticesOf(text: string, variables?: Readonly<Record<string, string>>): string[] {
  const checked = check(text, variables);
  if ('problems' in checked) throw new Error(JSON.stringify(checked.problems));
  return checked.notices.map(({ path, line, message }) => `${line} ${path}: ${message}`);
}

/** @param expected a part of the only notice, or `none` */
function expectNotice(text: string, expected = 'none'): void {
  expect(noticesOf(text, { HASH: digest })).toEqual(
    expected === 'none' ? [] : [expect.stringContaining(expected)],
  );
}

describe('a notice', () => {
  it.each(exampleNames)('is not what an example has: %s', (name) => {
    expect(noticesOf(exampleText(name), exampleVariables)).toEqual([]);
  });

  const [token, anonymous] = [
    `credentials: [{ tokenSha256: ${digest} }]`,
    'credentials: [{ anonymous: true }]',
  ];
  const caller = (fields: string) => `  - { name: a, ${fields} }\n`;
  const granted = caller(`${token}, allow: [{ environments: [sandbox], operations: ["*"], logins: [x] }]`);

  it.each([
    [granted, 'none'],
    [
      granted.replace(digest, '"${HASH}"'),
      '6 callers[0].credentials[0].tokenSha256: comes from an environment variable, which a reload does not read again',
    ],
    [
      `${granted}  - { name: trial, mode: dry-run, ${anonymous} }\n`,
      '7 callers[1].mode: lets through every request, also what the grants do not allow: set enforce when the log has no more requests with the decision would-deny',
    ],
    [
      `${granted}  - { name: idle, ${anonymous} }\n`,
      '7 callers[1]: has no grants, so all its requests get 403: say in allow what it may do, or remove it',
    ],
  ])('is about what callers may do (%#)', (callers, notice) => {
    expectNotice(`${minimal}callers:\n${callers}`, notice);
  });

  it.each(rows`
    https://gateway.example/gw        || noticed
    https://gateway.example/gw/api    || noticed
    https://gateway.example/gw/api/v4/transfer || noticed
    https://gateway.example           || none
    https://gateway.example/gw2       || none
    https://gateway.example/gw/pay    || none
  `)('says that the product is already in %s: %s', (baseUrl, noticed) => {
    const text = withEnvironment(`baseUrl: "${baseUrl}", product: gw`);
    const notice = '3 environments.sandbox.baseUrl: already contains the product';
    expectNotice(text, noticed === 'none' ? noticed : notice);
  });

  it.each(rows`
    { shutdown: 10s } || 30s || 5 proxy.timeouts.shutdown: is shorter than timeouts.request of sandbox: a shutdown can cut off requests, and the outcome of a payment is unknown then
    {}                || 40s || is shorter than timeouts.request of sandbox
    { shutdown: 40s } || 40s || none
  `)('says that a shutdown does not wait for requests: %s %s', (timeouts, request, notice) => {
    const text = minimal.replace('product: gw', `product: gw, timeouts: { request: ${request} }`);
    expectNotice(`${text}proxy: { timeouts: ${timeouts} }\n`, notice);
  });

  it('says of which environments a shutdown does not wait for requests', () => {
    const environments = ['a', 'b'].map(
      (name) => `  ${name}: { baseUrl: "https://${name}.example", product: gw }\n`,
    );
    const text = `keys: { source: directory, directory: keys }\nenvironments:\n${environments.join('')}`;
    expectNotice(`${text}proxy: { timeouts: { shutdown: 1s } }\n`, 'timeouts.request of a, b: ');
  });

  it.each(rows`
    store: memory                            || claims order IDs in each instance alone
    store: "redis://127.0.0.1", keyFile: /k  || none
  `)('says that claims in memory are of one instance: %s', (once, notice) => {
    expectNotice(`${minimal}payments: { once: { ${once} } }\n`, notice);
  });

  it('says which password for an egress proxy is sent unencrypted', () => {
    const proxy = (url: string, more = ', username: u, password: p'): string =>
      `egressProxy: { url: "${url}"${more} }`;
    const textWith = (fields: string): string =>
      withEnvironment(`baseUrl: "https://gateway.example", product: gw, ${fields}`);
    const notice = '3 environments.sandbox.egressProxy.url: sends the password for the proxy unencrypted';
    expectNotice(textWith(proxy('http://egress.internal')), notice);
    for (const fields of [
      proxy('http://egress.internal', ''),
      proxy('https://egress.internal'),
      proxy('http://127.0.0.1:3128'),
    ])
      expectNotice(textWith(fields));
    const vault = `{ source: vault, vault: { address: "https://v", auth: { method: token, tokenFile: t }, ${proxy('http://e')} } }`;
    const issuers = `jwtIssuers: { i: { issuer: "https://i", audience: a, ${proxy('http://e')} } }`;
    expect(noticesOf(`${withKeys(vault)}\n${issuers}\n`)).toHaveLength(2);
    const tracing = `tracing: { otlp: "https://c", ${proxy('http://e')} }`;
    expectNotice(`${minimal}${tracing}\n`, 'tracing.egressProxy.url: sends the password');
  });
});
