// A client of Countersign. Run with: node client.mjs http://127.0.0.1:8080/sandbox/gw ORDER_ID [SECONDS]
import { setTimeout } from 'node:timers/promises';

// Seconds until a person decides about an order that is not final: see docs/payments.md.
const [url, orderId = 'order-1', patience = '900'] = process.argv.slice(2);
const base = url.replace(/\/$/, '');
// The product of the environment. The gateway puts it before the names of some fields.
const product = base.split('/').at(-1);
// Those of the demo.
const [login, endpoint, group] = ['acme', '1234', '77'];

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

/** A row of "What the status query says" in docs/payments.md. */
async function orderStatus(path, id) {
  const { status, body } = await post(path, { login, client_orderid: id });
  let fields = {};
  try {
    if (status === 200) fields = JSON.parse(body) ?? {};
  } catch {
    // The response of the gateway is not a form.
  }
  if (fields.status === undefined) return 'no response';
  if (['approved', 'declined', 'filtered', 'unknown'].includes(fields.status)) return fields.status;
  if (fields.status !== 'error') return 'processing';
  if (fields['error-code'] === '124') return 'ambiguous';
  return `${product}-order-id` in fields ? 'in error' : 'not found';
}

/** Queries the status until it is final, or a person has to decide. Never sends the payment again. */
async function resolve(id) {
  const deadline = performance.now() + Number(patience) * 1000;
  for (let pause = 1000; ; pause = Math.min(2 * pause, 60_000)) {
    const found = await orderStatus(`/api/v4/status/${endpoint}`, id);
    if (['approved', 'declined', 'filtered'].includes(found)) return found;
    const left = deadline - performance.now();
    if (['ambiguous', 'in error', 'unknown'].includes(found) || left <= 0) return `a person decides: ${found}`;
    await setTimeout(Math.min(pause, left));
  }
}

/** Sends a payment once, and finds out what happened to it. A service stores the order ID before it calls this. */
async function transfer(id, amount, currency) {
  const { status, outcome, body } = await post(`/api/v4/transfer/${endpoint}`, { client_orderid: id, amount, currency });
  // 422: another form was sent under this order ID before. What became of that one?
  if (outcome === 'not-sent' && status !== 422) return `not sent, may be sent again under this order ID: ${JSON.parse(body).reason}`;
  if (outcome === 'answered' && (status === 401 || status === 403))
    return 'rejected, may be sent again under this order ID once the cause is fixed';
  return resolve(id);
}

console.log('manager-balance:', (await post(`/api/v2/get-balance/manager/${login}`)).status);
console.log('order-status:', await orderStatus(`/api/v4/status/${endpoint}`, 'invoice-1'));
console.log('order-status-group:', await orderStatus(`/api/v4/status/group/${group}`, 'invoice-1'));
console.log('pan-eligibility-send:', (await post(`/api/v2/pan-eligibility/send/${endpoint}`)).status);
console.log(`transfer ${orderId}:`, await transfer(orderId, '12.50', 'EUR'));
