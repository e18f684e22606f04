import { describe, expect, it } from '@jest/globals';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft,
  type Draft,
  fieldsOf,
  post,
  shippedScenario,
  transferDraft,
} from '../support/simulator.ts';

const starts = harness();

/** The shipped scenario with more sections. */
function start(sections: string, responses = '') {
  const shipped = shippedScenario().replace('\nresponses:\n', `\nresponses:\n${responses}\n`);
  const scenario = loadScenario(`${shipped}\n${sections}`);
  return starts.simulator({ scenario, serialNumber: () => 'sn-1' });
}

const refunds = `
operations:
  refund: { path: "/api/v4/refund/{endpoint}", signature: RSA-SHA256, loginFrom: header }
  refund-all: { path: /api/v4/refund/all, signature: RSA-SHA256, loginFrom: body }
  profile: { path: "/api/v2/profile/{login}", signature: HMAC-SHA1, loginFrom: path, readOnly: true }
`;
const refund = (path = '/gw/api/v4/refund/1234'): Draft => ({
  ...transferDraft([['client_orderid', 'r-1']]),
  path,
});

describe('an operation that the scenario adds', () => {
  it('is verified as it says, and makes an order', async () => {
    const { url, simulator } = await start(refunds);
    const response = await post(url, refund());
    expect(response.status).toBe(200);
    expect(fieldsOf(response.body)).toEqual({
      type: 'async-response',
      'serial-number': 'sn-1',
      'merchant-order-id': 'r-1',
      'gw-order-id': '900008',
      'end-point-id': '1234',
    });
    expect(simulator.seen.accepted({ operation: 'refund', login: 'acme' })).toBe(1);
  });

  it('has the fields of the scenario in its response, which is marked as undocumented', async () => {
    const { url } = await start(refunds, '  refund: { type: refund, status: declined }');
    const response = await post(url, refund());
    expect(response.headers['simulator-undocumented']).toBe('true');
    expect(fieldsOf(response.body)).toMatchObject({
      type: 'refund',
      status: 'declined',
      'serial-number': 'sn-1',
    });
  });

  it('is rejected if it is signed with the other method', async () => {
    const { url } = await start(refunds);
    const draft = { ...balanceDraft(), path: '/gw/api/v4/refund/1234' };
    expect((await post(url, draft)).headers['simulator-rejection']).toBe('method-wrong');
  });

  it('takes the login from its path', async () => {
    const { url } = await start(refunds);
    const draft = { ...balanceDraft(), path: '/gw/api/v2/profile/acme' };
    const response = await post(url, draft);
    expect(response.headers['simulator-undocumented']).toBe('true');
    expect(fieldsOf(response.body)).toEqual({ type: 'profile-response', 'serial-number': 'sn-1' });
    const other = { ...balanceDraft(), path: '/gw/api/v2/profile/beta' };
    expect((await post(url, other)).headers['simulator-rejection']).toBe('login-mismatch');
  });

  it('with a literal path precedes one with a placeholder, as in the proxy', async () => {
    const { url, simulator } = await start(refunds);
    const response = await post(url, refund('/gw/api/v4/refund/all'));
    expect(response.headers['simulator-rejection']).toBe('login-mismatch');
    expect(simulator.seen.count({ operation: 'refund-all', rejection: 'login-mismatch' })).toBe(1);
  });
});

it('an override of a built-in operation counts', async () => {
  const { url } = await start('operations: { transfer: { path: "/api/v5/transfer/{endpoint}" } }');
  const draft = transferDraft([['client_orderid', 't-1']]);
  expect((await post(url, draft)).status).toBe(404);
  const response = await post(url, { ...draft, path: '/gw/api/v5/transfer/1234' });
  expect(fieldsOf(response.body)).toMatchObject({ type: 'async-response', 'merchant-order-id': 't-1' });
});
