import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { pathAdvice } from '../../src/gateway/router.ts';
import { statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  edge = await starts.edge({
    config: {
      operations: {
        cancel: {
          path: '/api/v4/transfer/{endpointGroup}/cancel',
          signature: 'RSA-SHA256',
          loginFrom: 'header',
          readOnly: false,
        },
      },
    },
  });
});
beforeEach(() => {
  edge.gateway.requests.length = 0;
});

const balance = '/gw/api/v2/get-balance/manager/acme';

describe('an unknown path', () => {
  it.each([
    ['an unknown environment', `/staging${balance}`],
    ['an environment in capitals', `/Sandbox${balance}`],
    ['__proto__ as the environment', `/__proto__${balance}`],
    ['another product', '/sandbox/other/api/v2/get-balance/manager/acme'],
    ['an unknown operation', '/sandbox/gw/api/v4/refund/1234'],
    ['toString as an operation', '/sandbox/gw/api/toString'],
    ['the root', '/'],
    ['a host behind two slashes', `//evil.test/sandbox${balance}`],
    ['two slashes first', `//sandbox${balance}`],
    ['two slashes within', `/sandbox/${balance}`],
    ['/./', '/sandbox/gw/./api/v2/get-balance/manager/acme'],
    ['/../', '/sandbox/../sandbox/gw/api/v2/get-balance/manager/acme'],
    ['a slash at the end', `/sandbox${balance}/`],
    ['more behind the end', `/sandbox${balance}/more`],
    ['an escaped literal', '/sandbox/gw/api/v2/get%2Dbalance/manager/acme'],
    ['an escaped slash for a slash', '/sandbox/gw/api%2Fv2/get-balance/manager/acme'],
    ['a backslash', '/sandbox\\gw/api/v2/get-balance/manager/acme'],
    ['a path parameter on a literal', '/sandbox/gw;v=1/api/v2/get-balance/manager/acme'],
    ['a status group without its id', '/sandbox/gw/api/v4/status/group'],
    ['no status endpoint', '/sandbox/gw/api/v4/status'],
    ['a page of the admin port', '/metrics'],
    ['the health check of the admin port', '/healthz'],
  ])('gets the same response in all cases, and advice on its own text: %s', async (_, target) => {
    const problem = expectProblem(await edge.send(formRequest(target, statusForm)), 'unknown-route');
    const common =
      'Unknown path. Expected /{environment}/{product}/api/...; check the spelling of the environment, of the product and of the operation.';
    const advice = pathAdvice(target);
    expect(problem.detail).toBe(advice === undefined ? common : `${common} ${advice}`);
    expect(edge.gateway.requests).toHaveLength(0);
  });
});

it.each([
  ['a path parameter', '1234;v=1'],
  ['a fragment', '1234#frag'],
  ['a dot segment', '..'],
  ['an empty one', ''],
  ['an escaped question mark', '1234%3Fa'],
])('an invalid endpoint is rejected: %s', async (_, endpoint) => {
  const target = `/sandbox/gw/api/v4/status/${endpoint}`;
  expectProblem(await edge.send(formRequest(target, statusForm)), 'parameter-invalid');
  expect(edge.gateway.requests).toHaveLength(0);
});

describe('a configured path', () => {
  it.each([
    ['order-status', '/gw/api/v4/status/1234', statusForm],
    ['order-status-group', '/gw/api/v4/status/group/7', statusForm],
    ['manager-balance', balance, ''],
    ['transfer', '/gw/api/v4/transfer/1234', 'client_orderid=1'],
    ['pan-eligibility-send', '/gw/api/v2/pan-eligibility/send/1234', 'client-order-id=1'],
    ['cancel', '/gw/api/v4/transfer/1234/cancel', 'login=acme'],
  ])('is the operation %s, and reaches the gateway at the same path', async (operation, path, form) => {
    const response = await edge.send(formRequest(`/sandbox${path}`, form));
    expect(response.status).toBe(200);
    expect(edge.gateway.requests.map(({ target }) => target)).toEqual([path]);
    const line = edge.logLines().find(({ requestId }) => requestId === response.headers['x-request-id']);
    expect(line).toMatchObject({ operation, environment: 'sandbox', login: 'acme' });
  });

  it('is rewritten from its values', async () => {
    await edge.send(formRequest('/sandbox/gw/api/v4/transfer/%31%32%33%34', 'client_orderid=1'));
    expect(edge.gateway.requests.map(({ target }) => target)).toEqual(['/gw/api/v4/transfer/1234']);
  });
});
