// A client of Countersign. Run with: node client.mjs http://127.0.0.1:8080/sandbox/gw ORDER_ID
import { setTimeout } from 'node:timers/promises';

const [base, orderId = 'order-1'] = process.argv.slice(2);
const login = 'acme';

/** Posts an unsigned form. A network error says nothing about the outcome, so it counts as unknown. */
async function post(path, form = {}) {
  try {
    const response = await fetch(base + path, {
      method: 'POST',
      body: new URLSearchParams(form),
      headers: { Accept: 'application/json' }, // and Authorization: Bearer <token>
      signal: AbortSignal.timeout(35_000),
    });
    const body = await response.text();
    return { status: response.status, outcome: response.headers.get('Countersign-Outcome') ?? 'unknown', body };
  } catch {
    return { status: 0, outcome: 'unknown', body: '' };
  }
}

async function orderStatus(path, id) {
  const { status, body } = await post(path, { login, client_orderid: id });
  try {
    return status === 200 ? JSON.parse(body).status : undefined;
  } catch {
    return undefined; // The response of the gateway is not a form.
  }
}

/** Sends a payment once, and finds out what became of it. */
async function transfer(id, amount, currency) {
  const { status, outcome, body } = await post('/api/v4/transfer/1234', { client_orderid: id, amount, currency });
  if (outcome === 'not-sent') return `not sent, may be sent again: ${JSON.parse(body).reason}`;
  if (outcome === 'answered' && status < 500 && status !== 200) return `rejected with ${status}`;
  // Made, or perhaps made (unknown, or a 5xx of the gateway): the status decides. Never resubmit under a new ID.
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const found = await orderStatus('/api/v4/status/1234', id);
    if (found !== undefined && found !== 'error') return found;
    await setTimeout(500 * 2 ** attempt);
  }
  return 'unresolved: query the status again later';
}

console.log('manager-balance:', (await post(`/api/v2/get-balance/manager/${login}`)).status);
console.log('order-status:', await orderStatus('/api/v4/status/1234', 'invoice-1'));
console.log('order-status-group:', await orderStatus('/api/v4/status/group/77', 'invoice-1'));
console.log('pan-eligibility-send:', (await post('/api/v2/pan-eligibility/send/1234')).status);
console.log(`transfer ${orderId}:`, await transfer(orderId, '12.50', 'EUR'));
