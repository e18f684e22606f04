import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
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
beforeEach(() => {
  edge.gateway.requests.length = 0;
});

const balanceOf = (login: string): string => `/sandbox/gw/api/v2/get-balance/manager/${login}`;
const unmapped = '/sandbox/gw/api/v4/transfer/77';
const header = (login: string): string[] => [`Countersign-Login: ${login}`];

const conflicting: [name: string, request: string, reason: Reason][] = [
  ['path and body', formRequest(balanceOf('acme'), 'login=beta'), 'login-conflict'],
  ['path and header', formRequest(balanceOf('acme'), '', header('beta')), 'login-conflict'],
  ['body and header', formRequest(unmapped, 'login=acme', header('beta')), 'login-conflict'],
  ['path, body and header', formRequest(balanceOf('a'), 'login=b', header('c')), 'login-conflict'],
  ['the map of endpoints and the header', formRequest(transfer, '', header('beta')), 'login-conflict'],
  ['the map of endpoints and the body', formRequest(status, 'login=beta&client_orderid=1'), 'login-conflict'],
  ['two in the body', formRequest(unmapped, 'login=acme&login=beta'), 'login-conflict'],
  ['an empty header beside another', formRequest(transfer, '', header('')), 'login-conflict'],
];

describe('conflicting logins', () => {
  it.each(conflicting)('are rejected: %s', async (_, request, reason) => {
    expectProblem(await edge.send(request), reason);
    expect(edge.gateway.requests).toHaveLength(0);
  });
});

describe('the map of endpoints', () => {
  it.each([
    ['an endpoint', '/sandbox/gw/api/v4/status/1234'],
    ['a group', '/sandbox/gw/api/v4/status/group/1234'],
  ])('applies to %s: another login in the body conflicts', async (_, target) => {
    const request = formRequest(target, 'login=beta&client_orderid=1');
    expectProblem(await edge.send(request), 'login-conflict');
    expect(edge.gateway.requests).toHaveLength(0);
  });
});

describe('a request without a login', () => {
  it('gets the advice to send the header', async () => {
    const problem = expectProblem(
      await edge.send(formRequest(unmapped, 'client_orderid=1')),
      'login-missing',
    );
    expect(problem.detail).toContain('Countersign-Login');
  });

  it('gets the advice to send the body parameter', async () => {
    const request = formRequest('/sandbox/gw/api/v4/status/77', 'client_orderid=1');
    const problem = expectProblem(await edge.send(request), 'login-missing');
    expect(problem.detail).toContain('body parameter "login"');
  });
});

const invalid = [
  '..',
  '.',
  '%2e%2e',
  '%252e%252e',
  'a%2fb',
  'a%5Cb',
  'a%00',
  'a%zz',
  'a;b',
  'a%20b',
  'x'.repeat(200),
  '%C3%A9',
];

describe('an invalid login', () => {
  it.each(invalid)('is rejected in the path: %s', async (login) => {
    expectProblem(await edge.send(formRequest(balanceOf(login))), 'parameter-invalid');
    expect(edge.gateway.requests).toHaveLength(0);
  });

  it.each(invalid.filter((login) => !login.includes('%zz')))('is rejected in the body: %s', async (login) => {
    expectProblem(
      await edge.send(formRequest(unmapped, `client_orderid=1&login=${login}`)),
      'parameter-invalid',
    );
  });

  it.each(['..', 'a/b', 'a%2fb', '', 'acme, acme', 'x'.repeat(200)])(
    'is rejected in the header: "%s"',
    async (login) => {
      expectProblem(
        await edge.send(formRequest(unmapped, 'client_orderid=1', header(login))),
        'parameter-invalid',
      );
    },
  );

  it('is an unknown route if it has two segments', async () => {
    expectProblem(await edge.send(formRequest(balanceOf('a/b'))), 'unknown-route');
  });
});

it.each(['__proto__', 'constructor', 'toString', 'x'.repeat(128)])(
  'a login without keys has none: %s',
  async (login) => {
    expectProblem(await edge.send(formRequest(balanceOf(login))), 'key-missing');
    expectProblem(
      await edge.send(formRequest(`/sandbox/gw/api/v4/transfer/${login}`, `client_orderid=1&login=${login}`)),
      'key-missing',
    );
    expect(edge.gateway.requests).toHaveLength(0);
  },
);

describe('the login', () => {
  it.each([
    ['the map of endpoints', formRequest(transfer, 'client_orderid=1'), 'acme'],
    ['the header', formRequest(unmapped, 'client_orderid=1', header('beta')), 'beta'],
    ['the body', formRequest('/sandbox/gw/api/v4/status/77', 'login=beta&client_orderid=1'), 'beta'],
    ['the path, escaped', formRequest(balanceOf('b%65ta')), 'beta'],
    ['all of them, where they agree', formRequest(status, statusForm, header('acme')), 'acme'],
  ])('is found in %s', async (_, request, login) => {
    expect((await edge.send(request)).status).toBe(200);
    const [received] = edge.gateway.requests;
    expect(received?.headers.authorization).toContain(`oauth_consumer_key="${login}"`);
    expect(received?.rawHeaders.join()).not.toMatch(/countersign-login/i);
  });
});
