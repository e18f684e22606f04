// A shop that uses the client. Run with: node main.mjs http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]
// It has no key and no secret. A real one stores its orders, and authenticates those who may pay and refund.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { Countersign } from './countersign.mjs';

const [url, port = '0', seconds = '900'] = process.argv.slice(2);
// Those of the demo.
const countersign = new Countersign(url, { login: 'acme', endpoint: '1234' });

/** A real shop stores the order ID, and when it was sent, before this. */
async function pay({ client_orderid, ...form }) {
  const server_callback_url = `http://127.0.0.1:${server.address().port}/callback`;
  const sent = await countersign.send('v4/transfer', { client_orderid, ...form, server_callback_url });
  return sent.next === 'query' ? countersign.untilDecided({ client_orderid }, Number(seconds)) : sent;
}

/** Only its serial number tells the status of a refund from that of the payment. */
async function refund(form) {
  const sent = await countersign.send('v2/return', form);
  const serialNumber = sent.fields['serial-number'];
  if (sent.next !== 'query') return sent;
  if (!serialNumber) return { ...sent, next: 'ask-support' };
  const { client_orderid, orderid } = form;
  return countersign.untilDecided({ client_orderid, orderid, 'by-request-sn': serialNumber }, Number(seconds));
}

async function callback(received) {
  const { result, respondWith, order } = await countersign.callback(received);
  console.log(order ? `${result}: ${JSON.stringify(order.client_orderid)} is ${order.next}: ${order.row}` : result);
  return [respondWith, ''];
}

async function respond({ method, url }, body) {
  const { pathname, search } = new URL(url, 'http://shop');
  // The gateway sends a callback by GET, and a payer's browser a redirect by POST.
  if (pathname === '/callback') return callback(method === 'GET' ? search.slice(1) : body);
  const command = { '/pay': pay, '/refund': refund }[pathname];
  if (!command || method !== 'POST') return [404, ''];
  const { next, row, orderId, reason } = await command(Object.fromEntries(new URLSearchParams(body)));
  return [200, `${next}: ${row} ${orderId ?? reason ?? ''}\n`];
}

const server = createServer(async (request, response) => {
  const [status, said] = await respond(request, await text(request));
  response.writeHead(status).end(said);
});
server.listen(Number(port), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
