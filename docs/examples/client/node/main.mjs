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
/** Those that are not decided, with the serial number of each, by order. */
const refunds = new Map();
const callbackUrl = () => `http://127.0.0.1:${server.address().port}/callback`;

/** A real shop stores the order, and when it was sent, before this. */
async function pay(form) {
  const { client_orderid, amount, currency } = form;
  const order = { client_orderid, amount, currency };
  // What was begun is only queried, with the amount that is stored: this one may be another.
  const stored = orders.get(client_orderid);
  const isSame = stored?.amount === amount && stored?.currency === currency;
  if (stored) return isSame ? untilDecided(stored) : { next: 'ask-support', row: 'another amount' };
  orders.set(client_orderid, order);
  const sent = await countersign.pay('v4/transfer', { ...form, server_callback_url: callbackUrl() });
  if (['send-again', 'fix'].includes(sent.next)) orders.delete(client_orderid);
  if (sent.next !== 'query') return sent;
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
  const order = orders.get(client_orderid);
  if (!order || order.settled || !['paid', 'not-paid'].includes(next)) return;
  order.settled = next;
  console.log(`settled: ${JSON.stringify(client_orderid)} is ${next}`);
}

/** One at a time of an order, since a refund that is posted twice is made twice. A real shop stores it before. */
async function refund(form) {
  const { client_orderid } = form;
  if (refunds.has(client_orderid)) return { next: 'ask-support', row: 'a refund is not decided' };
  refunds.set(client_orderid, form);
  const store = (serialNumber) => refunds.set(client_orderid, { ...form, 'by-request-sn': serialNumber });
  const found = await countersign.refund({ ...form, server_callback_url: callbackUrl() }, store, Number(seconds));
  if (found.next !== 'ask-support') refunds.delete(client_orderid);
  return found;
}

async function callback(received) {
  const { result, respondWith, order, found } = await countersign.callback(received, (id) => orders.get(id));
  const report = (found) => {
    console.log(`${result}: ${JSON.stringify(order.client_orderid)} is ${found.next}: ${found.row}`);
    settle(order, found);
  };
  if (found) report(found);
  else console.log(result);
  // The gateway does not repeat what it got 200 for. Of an order that is not the shop's, anyone can send one.
  if (respondWith === 200 && found.next === 'query' && orders.has(order.client_orderid))
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
