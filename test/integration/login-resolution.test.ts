import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Reason } from '../../src/errors.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { testKeys } from '../support/service.ts';

const { status, transfer } = paths;

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  edge = await starts.edge({ keys: { acme: testKeys, beta: testKeys } });
});

const balanceOf = (login: string): string => `/sandbox/gw/api/v2/get-balance/manager/${login}`;
const unmapped = '/sandbox/gw/api/v4/transfer/77';
const header = (login: string): string[] => [`Countersign-Login: ${login}`];

async function expectRejected(request: string, reason: Reason) {
  edge.gateway.requests.length = 0;
  expectProblem(await edge.send(request), reason);
  expect(edge.gateway.requests).toEqual([]);
}

it.each([
  ['path and body', formRequest(balanceOf('acme'), 'login=beta')],
  ['the map, for a group, and the body', formRequest('/sandbox/gw/api/v4/status/group/1234', 'login=beta')],
  ['an empty header beside another', formRequest(transfer, '', header(''))],
])('conflicting logins are rejected: %s', async (_, request) => {
  await expectRejected(request, 'login-conflict');
});

describe('an invalid login', () => {
  const long = 'x'.repeat(200);
  const inBody = (login: string): string => formRequest(unmapped, `client_orderid=1&login=${login}`);
  const inHeader = (login: string): string => formRequest(unmapped, 'client_orderid=1', header(login));
  it.each([
    ...['..', '%2e%2e', '%252e%252e', 'a%2fb', 'a%00', 'a;b', 'a%20b', long, '%C3%A9', 'a%zz'].map(
      (login) => ['path', login, formRequest(balanceOf(login))] as const,
    ),
    ...['..', 'a%2fb', long].map((login) => ['body', login, inBody(login)] as const),
    ...['..', '', 'acme, acme', long].map((login) => ['header', login, inHeader(login)] as const),
  ])('is rejected in the %s: "%s"', async (_where, _login, request) => {
    await expectRejected(request, 'parameter-invalid');
  });
});

it.each(['__proto__', 'constructor', 'toString', 'x'.repeat(128)])(
  'a login without keys has none: %s',
  async (login) => {
    const inBody = formRequest(`/sandbox/gw/api/v4/transfer/${login}`, `client_orderid=1&login=${login}`);
    for (const request of [formRequest(balanceOf(login)), inBody])
      await expectRejected(request, 'key-missing');
  },
);

it.each([
  ['the map of endpoints', formRequest(transfer, 'client_orderid=1'), 'acme'],
  ['the header', formRequest(unmapped, 'client_orderid=1', header('beta')), 'beta'],
  ['the body', formRequest('/sandbox/gw/api/v4/status/77', 'login=beta&client_orderid=1'), 'beta'],
  ['the path, escaped', formRequest(balanceOf('b%65ta')), 'beta'],
  ['all of them, where they agree', formRequest(status, statusForm, header('acme')), 'acme'],
])('the login is found in %s', async (_, request, login) => {
  edge.gateway.requests.length = 0;
  expect((await edge.send(request)).status).toBe(200);
  const [received] = edge.gateway.requests;
  expect(received?.headers.authorization).toContain(`oauth_consumer_key="${login}"`);
  expect(received?.rawHeaders.join()).not.toMatch(/countersign-login/i);
});
