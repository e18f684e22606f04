// A shop that uses the client. Run with: node main.mjs http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]
// Then: curl -d client_orderid=order-7 -d amount=12.50 -d currency=EUR http://127.0.0.1:PORT/pay
// It has no key and no secret. A real one stores its orders in a database, and authenticates those who may pay and refund.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { Countersign } from './countersign.mjs';

const [url, port = '0', seconds = '900'] = process.argv.slice(2);
// Those of the demo.
const countersign = new Countersign(url, { login: 'acme', endpoint: '1234' });
const orders = new Map();
/** What to do about those that were not processed. */
const unprocessed = new Map();
/** Those that are not decided, with the serial number of each, by order. */
const refunds = new Map();
const callbackUrl = () => `http://127.0.0.1:${server.address().port}/callback`;

/** An order of the shop. One that is for a person is none: the payment of its ID is another. */
const stored = (id) => (unprocessed.get(id) === 'ask-support' ? undefined : orders.get(id));

/** A real shop stores the order, and when it was sent, before this. */
async function pay(form) {
  const { client_orderid, amount, currency } = form;
  const order = { client_orderid, amount, currency };
  if (orders.has(client_orderid)) {
    const known = stored(client_orderid);
    if (!known || known.amount !== amount || known.currency !== currency)
      return { next: 'ask-support', row: 'order ID reused' };
    // What was begun is only queried. What was not processed is sent again, unless a callback has settled it.
    if (known.settled || !unprocessed.delete(client_orderid)) return untilDecided(order);
  }
  orders.set(client_orderid, order);
  const sent = await countersign.pay('v4/transfer', { ...form, server_callback_url: callbackUrl() });
  if (sent.next !== 'query') {
    unprocessed.set(client_orderid, sent.next);
    return sent;
  }
  // A real shop shows it to the payer. It does not prove that there is no order.
  const message = sent.fields['error-message'];
  if (message) console.log(JSON.stringify(message));
  return untilDecided(order);
}

async function untilDecided(order) {
  const found = await countersign.untilDecided(order, Number(seconds));
  settle(order, found);
  return found;
}

/**
 * A real shop delivers here, or not: once for each order, whatever comes first or again. The `control` of a callback is no
 * key for that: a refund has the one of its payment.
 */
function settle({ client_orderid }, { next }) {
  const order = stored(client_orderid);
  if (!order || order.settled || !['paid', 'not-paid'].includes(next)) return;
  order.settled = next;
  console.log(`settled: ${JSON.stringify(client_orderid)} is ${next}`);
}

/** One at a time of an order. A real shop gives each refund an ID of its own, stores it, and sends one ID once. */
async function refund(form) {
  const { client_orderid } = form;
  if (refunds.has(client_orderid)) return { next: 'ask-support', row: 'a refund is not decided' };
  refunds.set(client_orderid, form);
  const store = (serialNumber) => refunds.set(client_orderid, { ...form, 'by-request-sn': serialNumber });
  const found = await countersign.refund({ ...form, server_callback_url: callbackUrl() }, store, Number(seconds));
  if (['refunded', 'not-refunded', 'send-again', 'fix'].includes(found.next)) refunds.delete(client_orderid);
  return found;
}

async function callback(received) {
  const { result, respondWith, order, found } = await countersign.callback(received, stored);
  const report = (found) => {
    console.log(`${result}: ${JSON.stringify(order.client_orderid)} is ${found.next}: ${found.row}`);
    settle(order, found);
  };
  if (found) report(found);
  else console.log(result);
  // The gateway does not repeat what it got 200 for. Of an order that is not the shop's, anyone can send one.
  if (respondWith === 200 && found.next === 'query' && stored(order.client_orderid))
    void untilDecided(order).then(report);
  return [respondWith, ''];
}

async function respond({ method, url }, body) {
  const { pathname, search } = new URL(url, 'http://shop');
  // The gateway sends a callback by GET, and a payer's browser a redirect by POST.
  if (pathname === '/callback') return callback(method === 'GET' ? search.slice(1) : body);
  const command = { '/pay': pay, '/refund': refund }[pathname];
  if (!command || method !== 'POST') return [404, ''];
  const { next, row, orderId, reason, message } = await command(Object.fromEntries(new URLSearchParams(body)));
  return [200, `${[`${next}: ${row}`, orderId ?? reason, message].filter(Boolean).join(' ')}\n`];
}

const server = createServer(async (request, response) => {
  try {
    const [status, said] = await respond(request, await text(request));
    response.writeHead(status).end(said);
  } catch {
    response.writeHead(500).end(); // such as to a request that broke off: the shop goes on
  }
});
server.listen(Number(port), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
