import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { paths, post, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { status } = paths;
const starts = harness(afterAll);
let edge: Edge;
beforeAll(async () => {
  edge = await starts.edge();
});

const ask = (path: string, form = '', headers: readonly string[] = []) =>
  edge.send(formRequest(path, form, headers));

it('an error names no endpoint that looks like a card number, and the others', async () => {
  const problem = expectProblem(await ask('/sandbox/gw/api/v4/transfer/77'), 'login-missing');
  expect(problem.detail).toContain('Endpoint 77 is not mapped to a login.');
  const response = await ask('/sandbox/gw/api/v4/transfer/4111111111111111');
  expectProblem(response, 'login-missing');
  expect(response.body.toString()).not.toContain('4111');
});

it('an error on an unknown path is about its text alone, whether or not the environment exists', async () => {
  const detailOf = async (path: string) => expectProblem(await ask(path), 'unknown-route').detail;
  const detail = await detailOf('/sandbox/gw/api/v9/transfer/1');
  expect(detail).toMatch(
    /^Unknown path\. Expected \/\{environment\}\/\{product\}\/api\/\.\.\.; check the spelling/,
  );
  expect(await detailOf('/nowhere/gw/api/v9/transfer/1')).toBe(detail);
});

describe("a client's X-Request-Id", () => {
  const lineOf = async (id: unknown) => {
    const find = () => edge.logLines('request completed').find(({ requestId }) => requestId === id);
    await until(() => find() !== undefined);
    return find();
  };

  it('is in the log line, and never replaces ours or reaches the gateway', async () => {
    const response = await ask(status, statusForm, ['X-Request-Id: order-7']);
    const id = response.headers['x-request-id'];
    expect(id).not.toBe('order-7');
    expect(await lineOf(id)).toMatchObject({ status: 200, callerRequestId: 'order-7' });
    expect(JSON.stringify(edge.gateway.requests.at(-1))).not.toContain('order-7');
  });

  it('is in an error response', async () => {
    const response = await ask('/nowhere', '', ['X-Request-Id: order-7']);
    const problem: { requestId: unknown; callerRequestId: unknown } = JSON.parse(response.body.toString());
    expect(problem.callerRequestId).toBe('order-7');
    expect(await lineOf(problem.requestId)).toMatchObject({ callerRequestId: 'order-7' });
  });
});

describe('a line feed', () => {
  const sends = (body: string): void => {
    edge.gateway.respond = (response) => response.setHeader('Content-Type', 'text/html').end(body);
  };

  it('ends the JSON that Countersign makes of a status', async () => {
    sends('status=approved\n');
    const headers = { Accept: 'application/json' };
    expect((await post(`${edge.url}${status}`, statusForm, headers)).body).toBe('{"status":"approved"}\n');
  });

  it.each(['', 'status=approved'])('is never added to what the gateway sent: %j', async (body) => {
    sends(body);
    expect((await edge.balance()).body).toBe(body);
  });

  it('ends /readyz', async () => {
    const response = await fetch(`${edge.adminUrl}/readyz`);
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await response.text()).toMatch(/^\{"ready":.*\}\n$/);
  });
});
