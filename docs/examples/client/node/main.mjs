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
const callbackUrl = () => `http://127.0.0.1:${server.address().port}/callback`;
const untilDecided = (order) => countersign.untilDecided(order, Number(seconds));

/** A real shop stores the order, and when it was sent, before this. */
async function pay(form) {
  const { client_orderid, amount, currency } = form;
  const order = { client_orderid, amount, currency };
  orders.set(client_orderid, order);
  const sent = await countersign.send('v4/transfer', { ...form, server_callback_url: callbackUrl() });
  if (sent.next !== 'query') return sent;
  if (sent.orderId) order.orderid = sent.orderId;
  // A real shop shows it to the payer. It does not prove that there is no order.
  const message = sent.fields['error-message'];
  if (message) console.log(JSON.stringify(message));
  return untilDecided(order);
}

/** Only its serial number tells the status of a refund from that of another one. A real shop stores it. */
async function refund(form) {
  const sent = await countersign.send('v2/return', { ...form, server_callback_url: callbackUrl() });
  const serialNumber = sent.fields['serial-number'];
  if (sent.next !== 'query') return sent;
  if (!serialNumber) return { ...sent, next: 'ask-support' };
  const { client_orderid, orderid } = form;
  return untilDecided({ client_orderid, orderid, 'by-request-sn': serialNumber });
}

async function callback(received) {
  const { result, respondWith, order, found } = await countersign.callback(received, (id) => orders.get(id));
  // A real shop acts on it here, once: the same callback may come again.
  const report = ({ next, row }) =>
    console.log(`${result}: ${JSON.stringify(order.client_orderid)} is ${next}: ${row}`);
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
  const [status, said] = await respond(request, await text(request));
  response.writeHead(status).end(said);
});
server.listen(Number(port), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
