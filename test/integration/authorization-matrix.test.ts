import { createHash } from 'node:crypto';
import { Agent } from 'node:https';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { environmentFor, tokenCredential } from '../support/config.ts';
import { type HttpResponse, post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { sameBytes } from '../support/jwt.ts';
import { startOidcServer } from '../support/oidc-server.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { describeWith } from '../support/requires.ts';
import { type TestProxy, testControlKey, testKeys, writeKeys } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const control = createHash('sha1').update(`approved11${testControlKey}`).digest('hex');
const callback = `status=approved&orderid=1&client_orderid=1&control=${control}`;

const environments = ['sandbox', 'production'] as const;
const operations = Object.keys(builtInOperations);
type Request = readonly [path: string, form: string, header?: string];
const requests: Readonly<Record<string, (login: string) => Request>> = {
  'manager-balance': (login) => [`/gw/api/v2/get-balance/manager/${login}`, ''],
  'order-status': (login) => ['/gw/api/v4/status/8', `login=${login}&client_orderid=1`],
  'order-status-group': (login) => ['/gw/api/v4/status/group/7', `login=${login}&client_orderid=1`],
  'pan-eligibility-send': (login) => ['/gw/api/v2/pan-eligibility/send/9', '', login],
  transfer: (login) => ['/gw/api/v4/transfer/9', 'client_orderid=1', login],
  'verify-callback': (login) => ['/gw/verify-callback', callback, login],
};
/** The last one has no keys anywhere. */
const logins = ['acme', 'acme-north', 'beta', 'ghost'] as const;

/** Grants as in the configuration, and what they allow in other words. */
const granted = [
  { environments: ['sandbox'], operations: ['manager-balance', 'transfer'], logins: ['acme*'] },
  { environments: ['production'], operations: ['*'], logins: ['beta', 'ghost'] },
];
const isGranted = (environment: string, operation: string, login: string): boolean =>
  environment === 'production'
    ? login === 'beta' || login === 'ghost'
    : /^(manager-balance|transfer)$/.test(operation) && login.startsWith('acme');

const kinds = ['token', 'certificateUri', 'certificateDns', 'jwt'] as const;
type Kind = (typeof kinds)[number];

const starts = harness(afterAll);
let gateway: RecordingGateway;
let proxy: TestProxy;
let open: TestProxy;
/** Sends as this caller. */
const credentials = new Map<string, { headers: Record<string, string>; agent: Agent }>();
/** For each kind one with the grants, and one without any. */
const callers = kinds.flatMap((kind) =>
  [granted, []].map((allow) => ({
    kind,
    allow,
    name: `${allow.length === 0 ? 'denied' : 'granted'}-${kind.toLowerCase()}`,
  })),
);

function credentialFor(kind: Kind, name: string) {
  if (kind === 'token') return tokenCredential(`token-of-${name}`);
  if (kind === 'jwt') return { jwt: { issuer: 'idp', subject: `subject-of-${name}` } };
  return kind === 'certificateUri'
    ? { certificateUri: `spiffe://test/${name}` }
    : { certificateDns: `${name}.internal` };
}

describeWith('openssl')('caller x environment x operation x login', () => {
  beforeAll(async () => {
    const ca = new Ca(starts.folder().path, 'ours');
    const server = ca.issue('server');
    const issuer = starts.closing(await startOidcServer());
    gateway = await starts.recordingGateway();
    // Environments must not share a URL.
    const both = {
      sandbox: environmentFor(`${gateway.url}/a`),
      production: environmentFor(`${gateway.url}/b`),
    };
    const tls = { certFile: server.certFile, keyFile: server.keyFile, clientCaFile: ca.file };
    const config = {
      environments: both,
      jwtIssuers: { idp: { issuer: issuer.url, audience: 'countersign' } },
      proxy: { port: 0, tls },
      callers: callers.map(({ kind, name, allow }) => ({
        name,
        credentials: [credentialFor(kind, name)],
        allow,
      })),
    };
    const keys = Object.fromEntries(
      logins.filter((login) => login !== 'ghost').map((login) => [login, testKeys]),
    );
    proxy = await starts.proxy({ gateway: gateway.url, config, keys });
    const anonymous = {
      name: 'anyone',
      credentials: [{ anonymous: true as const }],
      allow: granted,
    };
    open = await starts.proxy({
      gateway: gateway.url,
      config: { environments: both, callers: [anonymous] },
      keys,
    });
    for (const { keysFolder } of [proxy, open]) {
      for (const login of Object.keys(keys)) writeKeys(keysFolder, 'production', login, testKeys);
    }
    const plain = new Agent({ keepAlive: true, ca: ca.cert });
    for (const { kind, name } of callers) {
      const names = kind === 'certificateUri' ? `URI:spiffe://test/${name}` : `DNS:${name}.internal`;
      const own = kind.startsWith('certificate') ? ca.issue(name, { names }) : undefined;
      const bearer = kind === 'jwt' ? await issuer.sign({ sub: `subject-of-${name}` }) : `token-of-${name}`;
      credentials.set(name, {
        headers: own === undefined ? { Authorization: `Bearer ${bearer}` } : {},
        agent:
          own === undefined
            ? plain
            : new Agent({ keepAlive: true, ca: ca.cert, cert: own.cert, key: own.key }),
      });
    }
    starts.atEnd(() => [...credentials.values()].forEach(({ agent }) => agent.destroy()));
  }, 120_000);

  /** What the response says: `denied` only if nothing reached the gateway. */
  async function outcomeOf(
    of: TestProxy,
    environment: string,
    operation: string,
    login: string,
    caller?: string,
  ): Promise<{ readonly allowed: boolean; readonly response: HttpResponse }> {
    const { headers = {}, agent } = (caller === undefined ? undefined : credentials.get(caller)) ?? {};
    const [path, form, header] = requests[operation]?.(login) ?? ['', ''];
    const more = header === undefined ? {} : { 'Countersign-Login': header };
    const before = gateway.requests.length;
    const url = `${of.url}/${environment}${path}`;
    const response = await post(url, form, { ...headers, ...more }, agent === undefined ? {} : { agent });
    const sent = gateway.requests.length - before;
    if (response.status === 200 && sent === (operation === 'verify-callback' ? 0 : 1))
      return { allowed: true, response };
    const { reason } = JSON.parse(response.body);
    // A login without keys is allowed, and gets no further.
    if (reason === 'key-missing' && sent === 0 && login === 'ghost') return { allowed: true, response };
    expect([reason, response.status, sent]).toEqual(['not-allowed', 403, 0]);
    return { allowed: false, response };
  }

  const every = environments.flatMap((environment) =>
    operations.flatMap((operation) => logins.map((login) => [environment, operation, login] as const)),
  );
  it.each(kinds)(
    'by %s is as granted, and denied with the same bytes whatever is missing',
    async (kind) => {
      const denied = new Set<string>();
      for (const [environment, operation, login] of every) {
        const name = `granted-${kind.toLowerCase()}`;
        const { allowed, response } = await outcomeOf(proxy, environment, operation, login, name);
        const expected = isGranted(environment, operation, login);
        expect([environment, operation, login, allowed]).toEqual([environment, operation, login, expected]);
        if (!allowed) denied.add(sameBytes(response));
      }
      // Also for the login that does not exist.
      expect(denied.size).toBe(1);
    },
    60_000,
  );

  it('by anonymous callers is as granted', async () => {
    for (const [environment, operation, login] of every) {
      const { allowed } = await outcomeOf(open, environment, operation, login);
      const expected = isGranted(environment, operation, login);
      expect([environment, operation, login, allowed]).toEqual([environment, operation, login, expected]);
    }
  }, 60_000);

  it('denies with the same bytes whatever the credential is', async () => {
    const responses = kinds.map((kind) =>
      outcomeOf(proxy, 'sandbox', 'transfer', 'ghost', `denied-${kind.toLowerCase()}`),
    );
    const texts = (await Promise.all(responses)).map(({ response }) => sameBytes(response));
    expect(new Set(texts).size).toBe(1);
  });
});
