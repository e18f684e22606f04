import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { environmentFor, everything, tokenCredential } from '../support/config.ts';
import { nextIsServed } from '../support/countersign.ts';
import { paths } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { sameBytes } from '../support/jwt.ts';
import { expectProblem, expectRejectedAndClosed } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import type { RawResponse } from '../support/response-reader.ts';

const { balance } = paths;

const tokenOf = (name: string): string => `${name}-token-3f9a.~+/=`;
const credentialsOf = (name: string) => [tokenCredential(tokenOf(name))];
const bearer = (name: string): string => `Authorization: Bearer ${tokenOf(name)}`;

const live = { environments: ['production'], operations: ['*'], logins: ['beta'] };
const reading = { environments: ['sandbox'], operations: ['manager-balance'], logins: ['acme*', 'beta'] };
const callers = [
  { name: 'billing', credentials: credentialsOf('billing'), allow: [reading] },
  { name: 'live', credentials: credentialsOf('live'), allow: [live] },
  { name: 'ungranted', credentials: credentialsOf('ungranted') },
  { name: 'trial', mode: 'dry-run' as const, credentials: credentialsOf('trial') },
  { name: 'anyone', credentials: [{ anonymous: true as const }], allow: [everything] },
];

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  const keys = { controlKey: 'a control key' };
  const gateway = await starts.recordingGateway();
  const environments = {
    sandbox: environmentFor(gateway.url),
    production: environmentFor(`${gateway.url}/live`),
  };
  const proxy = await starts.proxy({
    keys: { acme: keys, beta: keys, 'beta-1': keys },
    config: { callers, environments },
  });
  edge = { ...proxy, gateway };
});
beforeEach(() => {
  edge.gateway.requests.length = 0;
});

const balanceOf = (login: string): string => `/sandbox/gw/api/v2/get-balance/manager/${login}`;

it('the product of an environment is told to a caller that has a grant there, and to nobody else', async () => {
  const wrong = '/sandbox/other/api/v2/get-balance/manager/acme';
  const detailFor = async (...headers: readonly string[]) =>
    expectProblem(await edge.send(formRequest(wrong, '', headers)), 'unknown-route').detail;
  expect(await detailFor(bearer('billing'))).toMatch(
    / The product of sandbox is "gw": use \/sandbox\/gw\/api\/\.$/,
  );
  for (const headers of [[bearer('trial')], [bearer('live')], []])
    expect(await detailFor(...headers)).not.toContain('gw');
  expect(edge.gateway.requests).toHaveLength(0);
});

describe('a caller with a bearer token', () => {
  it('is authenticated, also where a Connection header names it', async () => {
    const line = `${bearer('billing')}\r\nConnection: Authorization`;
    const response = await edge.send(formRequest(balance, '', [line]));
    expect(response.status).toBe(200);
    const logged = edge.logLines().find(({ requestId }) => requestId === response.headers['x-request-id']);
    expect(logged).toMatchObject({ caller: 'billing', login: 'acme' });
  });

  it.each([
    ['of no caller', 'Authorization: Bearer wrong'],
    ['that is the digest itself', `Authorization: Bearer ${tokenCredential(tokenOf('billing')).tokenSha256}`],
  ])('is never treated as anonymous if it presents one %s', async (_, line) => {
    const request = formRequest(balance, '', [line]);
    const response = await expectRejectedAndClosed(edge, request, 'caller-unknown');
    expect(response.headers['www-authenticate']).toBe('Bearer realm="countersign"');
  });

  it.each(['Basic YTpi', bearer('billing')])(
    'never has the header forwarded or logged: %s',
    async (value) => {
      const line = `Authorization: ${value.replace('Authorization: ', '')}`;
      expect((await edge.send(formRequest(balance, '', [line]))).status).toBe(200);
      const [received] = edge.gateway.requests;
      expect(received?.rawHeaders.filter((name) => name.toLowerCase() === 'authorization')).toHaveLength(1);
      expect(received?.headers.authorization).toMatch(/^OAuth oauth_consumer_key="acme", /);
      expect(received?.rawHeaders.join() + edge.logText()).not.toMatch(/billing-token|YTpi/);
    },
  );
});

describe('the access of a caller', () => {
  const send = (login: string, name: string): Promise<RawResponse> =>
    edge.send(formRequest(balanceOf(login), '', [bearer(name)]));

  /** Each built-in operation, with the login where it has it. */
  const requests: Record<string, (login: string) => [path: string, form: string, headers?: string[]]> = {
    'manager-balance': (login) => [`api/v2/get-balance/manager/${login}`, ''],
    'order-status': (login) => ['api/v4/status/8', `login=${login}&client_orderid=1`],
    'order-status-group': (login) => ['api/v4/status/group/7', `login=${login}&client_orderid=1`],
    'pan-eligibility-send': (login) => ['api/v2/pan-eligibility/send/9', '', [`Countersign-Login: ${login}`]],
    transfer: (login) => ['api/v4/transfer/9', 'client_orderid=1', [`Countersign-Login: ${login}`]],
    'verify-callback': (login) => ['verify-callback', 'status=approved', [`Countersign-Login: ${login}`]],
  };
  it.each(Object.keys(builtInOperations))(
    'to %s is that of a grant with its environment and login',
    async (operation) => {
      const sendTo = (environment: string, login: string) => {
        const [path, form, headers = []] = requests[operation]?.(login) ?? ['', ''];
        return edge.send(formRequest(`/${environment}/gw/${path}`, form, [bearer('live'), ...headers]));
      };
      expectProblem(await sendTo('sandbox', 'beta'), 'not-allowed');
      expectProblem(await sendTo('production', 'acme'), 'not-allowed');
      // Past the grants: the login has no keys, or the callback no control.
      expect((await sendTo('production', 'beta')).body.toString()).toMatch(
        /"key-missing"|"parameter-invalid"/,
      );
    },
  );

  it('is denied with the same response for a login that exists and for one that does not', async () => {
    const [existing, unknown] = [await send('beta-1', 'billing'), await send('no-such-login', 'billing')];
    const { requestId } = expectProblem(existing, 'not-allowed');
    expect(edge.logLines().find((line) => line.requestId === requestId)).toMatchObject({ login: 'unknown' });
    const bytes = [existing, unknown].map((response) =>
      sameBytes({ ...response, body: String(response.body) }),
    );
    expect(bytes[1]).toBe(bytes[0]);
  });

  it('is denied before the parameters are checked', async () => {
    const form = formRequest(balanceOf('beta-1'), 'oauth_nonce=x', [bearer('billing')]);
    expectProblem(await edge.send(form), 'not-allowed');
  });

  it('keeps the connection open when it is denied', async () => {
    const connection = await edge.connect();
    connection.send(formRequest(balance, 'a=b', [bearer('ungranted')]));
    expectProblem(await connection.response(), 'not-allowed');
    expect(await nextIsServed(connection)).toBe(true);
  });
});

describe('the order of the steps', () => {
  const nowhere = '/sandbox/gw/api/v4/nothing';

  it('has authentication before routing', async () => {
    const wrong = 'Authorization: Bearer wrong';
    expectProblem(await edge.send(formRequest(nowhere, 'a=%zz', [wrong])), 'caller-unknown');
    expectProblem(await edge.send(formRequest(balanceOf('..'), 'a=%zz', [wrong])), 'caller-unknown');
  });

  it('has routing before the form is read', async () => {
    expectProblem(await edge.send(formRequest(nowhere, 'a=%zz', [bearer('billing')])), 'unknown-route');
  });

  it('does not include reading the body of an unknown caller', async () => {
    const lines = ['Authorization: Bearer wrong', 'Content-Length: 1000'];
    const connection = await edge.connect();
    const response = await connection.send(formRequest(balance, '', lines)).response();
    expectProblem(response, 'caller-unknown');
    expect(response.headers.connection).toBe('close');
    connection.finish();
    expect(await connection.ended()).toBe('FIN');
  });
});

it('requests of a caller in dry-run mode are processed, and what would be denied is logged and counted', async () => {
  const response = await edge.send(formRequest(balance, '', [bearer('trial')]));
  expect(response.status).toBe(200);
  expect(edge.gateway.requests).toHaveLength(1);
  expect(edge.logLines()).toContainEqual(
    expect.objectContaining({
      level: 'warn',
      msg: 'would be denied in enforce mode',
      caller: 'trial',
      environment: 'sandbox',
      operation: 'manager-balance',
      login: 'acme',
    }),
  );
  expect(await edge.metrics()).toMatch(
    /^countersign_authorization_decisions_total\{[^}]*caller="trial"[^}]*decision="would-deny"[^}]*\} 1$/m,
  );
});
