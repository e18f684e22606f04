import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { tokenCredential } from '../support/config.ts';
import { Folder } from '../support/folder.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import { describeWith } from '../support/requires.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { until } from '../support/until.ts';

const hashOf = (token: string): string => tokenCredential(token).tokenSha256;
const bearer = (token: string): string => `Authorization: Bearer ${token}`;
const balanceOf = (login: string): string => `/sandbox/gw/api/v2/get-balance/manager/${login}`;
const reading = { environments: ['sandbox'], operations: ['manager-balance'] };

const callers = [
  {
    name: 'billing',
    credentials: [tokenCredential('billing-token')],
    allow: [{ ...reading, logins: ['acme'] }],
  },
  {
    name: 'wide',
    credentials: [tokenCredential('wide-token')],
    allow: [{ ...reading, logins: ['b*'] }],
  },
  { name: 'trial', mode: 'dry-run' as const, credentials: [tokenCredential('trial-token')] },
];
const keys = { controlKey: 'a control key' };

const { balance, status } = paths;
const starts = harness(afterAll);

const lineOf = (proxy: Edge, requestId: unknown): Record<string, unknown> =>
  proxy.logLines().find((line) => line.msg === 'request completed' && line.requestId === requestId) ?? {};

describe('the log line of a rejected request', () => {
  let edge: Edge;
  beforeAll(async () => {
    edge = await starts.edge({ keys: { acme: keys, beta: keys }, config: { callers } });
  });

  async function ask(path: string, headers: readonly string[], form = '') {
    const response = await edge.send(formRequest(path, form, headers));
    await until(() => lineOf(edge, response.headers['x-request-id']).msg !== undefined);
    return { response, line: lineOf(edge, response.headers['x-request-id']) };
  }

  it('without known credentials says where it came from, where it would have gone, and starts the hash', async () => {
    const { response, line } = await ask(balance, [bearer('wrong-token')]);
    expect(response.status).toBe(401);
    expect(line).toMatchObject({
      peer: '127.0.0.1',
      method: 'POST',
      environment: 'sandbox',
      operation: 'manager-balance',
      credential: 'token',
      tokenHash: hashOf('wrong-token').slice(0, 8),
    });
    expect(Object.keys(line)).not.toContain('login');
    expect(edge.logText()).not.toContain(hashOf('wrong-token').slice(0, 9));
  });

  it.each([
    ['none', []],
    ['malformed-token', ['Authorization: Bearer']],
    ['malformed-token', ['Authorization: Bearer "billing-token"']],
    ['other-scheme', ['Authorization: Basic YTpi']],
  ])('says that the credential was %s', async (credential, headers) => {
    const { line } = await ask(balance, headers);
    expect(line).toMatchObject({ credential, peer: '127.0.0.1' });
    expect(Object.keys(line)).not.toContain('tokenHash');
  });

  it.each(['/sandbox/gw/api/v4/nothing/mark-in-a-path', '/mark-in-a-path/gw/api/v4/transfer/1'])(
    'never holds the path %s',
    async (path) => {
      const { response, line } = await ask(path, []);
      expect(response.status).toBe(401);
      expect(Object.keys(line)).not.toContain('environment');
      expect(edge.logText()).not.toContain('mark-in-a-path');
    },
  );

  it('without a grant names a configured login, and the token that was used', async () => {
    const { response, line } = await ask(status, [bearer('billing-token')], statusForm);
    expect(response.status).toBe(403);
    expect(line).toMatchObject({
      caller: 'billing',
      environment: 'sandbox',
      operation: 'order-status',
      login: 'acme',
      peer: '127.0.0.1',
      method: 'POST',
      tokenHash: hashOf('billing-token').slice(0, 8),
    });
  });

  it('without a grant names a login only once its keys are known, and gives the client the same bytes', async () => {
    const same = ({ body, headers }: Awaited<ReturnType<Edge['send']>>): string =>
      body.toString().replaceAll(headers['x-request-id'] ?? '', 'ID');
    const ghost = await ask(balanceOf('ghost'), [bearer('billing-token')]);
    const before = await ask(balanceOf('beta'), [bearer('billing-token')]);
    expect([ghost.line.login, before.line.login]).toEqual(['unknown', 'unknown']);
    expect((await ask(balanceOf('beta'), [bearer('wide-token')])).response.status).toBe(200);
    const after = await ask(balanceOf('beta'), [bearer('billing-token')]);
    expect(after.line.login).toBe('beta');
    expect(same(after.response)).toBe(same(ghost.response));
  });

  it('of a dry run is found by its request ID', async () => {
    const { response } = await ask(balance, [bearer('trial-token')]);
    const lines = edge.logLines().filter(({ msg }) => msg === 'would be denied in enforce mode');
    expect(lines).toEqual([
      expect.objectContaining({
        requestId: response.headers['x-request-id'],
        caller: 'trial',
        login: 'acme',
      }),
    ]);
  });

  it('of any other request does not say who sent it', async () => {
    const { line } = await ask(balance, [bearer('billing-token')]);
    expect(line).toMatchObject({ status: 200, login: 'acme' });
    expect(Object.keys(line)).not.toEqual(expect.arrayContaining(['peer']));
    expect(Object.keys(line)).not.toEqual(expect.arrayContaining(['credential']));
  });
});

describeWith('openssl')('with TLS (needs the program openssl)', () => {
  const folder = new Folder();
  let edge: Edge;
  let ours: Ca;
  let stranger: Issued;

  beforeAll(async () => {
    ours = new Ca(folder.path, 'ours');
    const server = ours.issue('server');
    stranger = ours.issue('stranger', { names: 'DNS:stranger.test' });
    edge = await starts.edge({
      keys: { acme: keys },
      config: {
        callers: [{ name: 'billing', credentials: [{ certificateUri: 'spiffe://test/billing' }] }],
        proxy: {
          port: 0,
          tls: { certFile: server.certFile, keyFile: server.keyFile, clientCaFile: ours.file },
        },
      },
    });
  }, 60_000);
  afterAll(() => folder.remove());

  /** A certificate that its owner made, with any name. */
  function selfSigned(subject: string): Pick<Issued, 'cert' | 'key'> {
    const [certFile, keyFile] = [folder.at('self.crt'), folder.at('self.key')];
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile];
    execFileSync('openssl', ['req', '-x509', '-utf8', ...key, '-out', certFile, '-subj', subject], {
      stdio: 'pipe',
    });
    return { cert: readFileSync(certFile), key: readFileSync(keyFile) };
  }

  async function askWith({ cert, key }: Pick<Issued, 'cert' | 'key'>) {
    const options = { method: 'POST', agent: false as const, ca: ours.cert, cert, key };
    const id = await new Promise((resolve, reject) => {
      const request = httpsRequest(`${edge.url}${balance}`, options, (response) => {
        expect(response.statusCode).toBe(401);
        response.resume().once('end', () => resolve(response.headers['x-request-id']));
      });
      request.once('error', reject).end();
    });
    await until(() => lineOf(edge, id).msg !== undefined);
    return lineOf(edge, id);
  }

  it('a certificate without a caller is named by subject and issuer', async () => {
    const line = await askWith(stranger);
    expect(line).toMatchObject({
      peer: '127.0.0.1',
      credential: 'certificate',
      certificateSubject: 'CN=stranger',
      certificateIssuer: 'CN=ours',
    });
    expect(Object.keys(line)).not.toContain('certificateProblem');
  });

  it('a certificate of another CA is named with the reason, however it is named: bounded, on one line', async () => {
    const line = await askWith(
      selfSigned(
        `/CN=caf\u00e9 4111111111111111/O=${'o'.repeat(64)}/OU=${'u'.repeat(64)}/L=${'l'.repeat(120)}`,
      ),
    );
    expect(line).toMatchObject({
      credential: 'certificate',
      certificateProblem: expect.stringMatching(/^[A-Z_]+$/),
      certificateSubject: expect.stringMatching(/^[ -~]{100,250}$/),
    });
    expect(edge.logText()).not.toContain('4111111111111111');
    expect((await askWith(selfSigned('/CN=4111 1111 1111 1111'))).certificateSubject).toMatch(/redacted/);
  });
});
