import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { post } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { expectProblem } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import { testControlKey } from '../support/service.ts';

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  edge = await starts.edge({
    config: {
      operations: {
        return: {
          path: '/api/v2/return/{endpoint}',
          signature: 'SHA1-control',
          loginFrom: 'header',
          control: ['login', 'client_orderid', 'orderid', 'amount', 'currency'],
          parameters: {
            amount: { minorUnitsOf: 'currency', required: false },
            currency: { required: false },
          },
        },
      },
    },
  });
});
beforeEach(() => {
  edge.gateway.requests.length = 0;
  edge.gateway.respond = (response) =>
    response.setHeader('Content-Type', 'text/html').end('type=async-response\n&serial-number=1\n');
});

const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');
const send = (form: string, headers: Readonly<Record<string, string>> = { 'Countersign-Login': 'acme' }) =>
  post(`${edge.url}/sandbox/gw/api/v2/return/1234`, form, headers);

describe('an operation that is signed by a control', () => {
  it('is sent with the login and the control, and without an OAuth header', async () => {
    const form = 'client_orderid=a%26b&orderid=17&amount=10.42&currency=EUR&comment=late+%C3%A9';
    const { status, headers } = await send(form);
    expect(status).toBe(200);
    expect(headers['countersign-outcome']).toBe('answered');
    const [request] = edge.gateway.requests;
    const control = sha1(`acmea&b171042EUR${testControlKey}`);
    expect(String(request?.body)).toBe(
      `login=acme&client_orderid=a%26b&orderid=17&amount=10.42&currency=EUR&comment=late%20%C3%A9&control=${control}`,
    );
    expect(request?.headers).toMatchObject({ 'content-type': 'application/x-www-form-urlencoded' });
    expect(request?.headers.authorization).toBeUndefined();
  });

  it('of the whole amount covers neither amount nor currency', async () => {
    await send('login=acme&client_orderid=1&orderid=17', {});
    const control = sha1(`acme117${testControlKey}`);
    expect(String(edge.gateway.requests[0]?.body)).toBe(
      `login=acme&client_orderid=1&orderid=17&control=${control}`,
    );
  });

  it.each([
    ['the control of its own', 'client_orderid=1&orderid=17&control=abc', 'reserved-parameter'],
    ['no order', 'client_orderid=1', 'parameter-invalid'],
    ['too many decimals', 'client_orderid=1&orderid=17&amount=1.5&currency=JPY', 'parameter-invalid'],
    ['another login than the header', 'login=other&client_orderid=1&orderid=17', 'login-conflict'],
  ] as const)('sends nothing for a form with %s', async (_, form, reason) => {
    const target = '/sandbox/gw/api/v2/return/1234';
    expectProblem(await edge.send(formRequest(target, form, ['Countersign-Login: acme'])), reason);
    expect(edge.gateway.requests).toEqual([]);
  });

  it('is a payment: a 503 of the gateway is not sent again', async () => {
    edge.gateway.respond = (response) => response.writeHead(503).end();
    expect((await send('client_orderid=1&orderid=17')).status).toBe(503);
    expect(edge.gateway.requests).toHaveLength(1);
  });
});
