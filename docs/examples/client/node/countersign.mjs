// A client of Countersign to copy into a service (Node.js 20 or later). Why it does what it does: docs/payments.md.
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';

/*
 * The tables of docs/payments.md: the first row that applies says what to do now.
 *
 * paid, not-paid           done
 * refunded, not-refunded   done, if it is your refund
 * query                    find out what became of it: untilDecided()
 * send-again               it was not sent: send it again under the same order ID, after retryAfter seconds
 * fix                      it was not processed: find the cause, then send it again under the same order ID
 * ask-support              a person decides, with the gateway's support: do not send it again before
 */
// Without a connection, and of Countersign: any other status of what was not sent is for the caller to correct.
const temporary = [0, 408, 429, 500, 502, 503, 504];
const afterSending = [
  ['another order', 'query', (r) => r.orderMismatch],
  ['order ID reused', 'ask-support', (r) => r.reason === 'order-id-reused'],
  ['not sent', 'send-again', (r) => r.outcome === 'not-sent' && temporary.includes(r.status)],
  ['not sent', 'fix', (r) => r.outcome === 'not-sent'],
  ['rejected', 'fix', (r) => r.outcome === 'answered' && [401, 403].includes(r.status)],
  ['may be processed', 'query', () => true],
];
// Of a refund, and of what else was done to a payment since.
const isRefund = (r) => ['reversal', 'refund'].includes(r.fields['transaction-type']);
const laterStages = ['cancel', 'chargeback', 'fraud', 'dispute', 'retrieval'];
const isRepeated = (r) => ['status', 'transaction-type'].some((name) => Array.isArray(r.fields[name]));
const afterQuery = [
  ['no response', 'query', (r) => r.status !== 200 || !r.fields.status || isRepeated(r)],
  ['later stage', 'ask-support', (r) => laterStages.includes(r.fields['transaction-type'])],
  ['refunded', 'refunded', (r) => isRefund(r) && r.fields.status === 'approved'],
  ['not refunded', 'not-refunded', (r) => isRefund(r) && ['declined', 'filtered'].includes(r.fields.status)],
  ['approved', 'paid', (r) => r.fields.status === 'approved'],
  ['declined', 'not-paid', (r) => ['declined', 'filtered'].includes(r.fields.status)],
  ['unknown', 'ask-support', (r) => r.fields.status === 'unknown'],
  ['processing', 'query', (r) => r.fields.status !== 'error'],
  ['ambiguous', 'ask-support', (r) => r.fields['error-code'] === '124'],
  ['in error', 'ask-support', (r) => r.orderId],
  ['not found', 'query', () => true],
];

/**
 * What to do about a callback: [whether to query the status, the status of the response to the gateway]. 503, so that the
 * gateway repeats it, also if the query gets no response.
 */
const callbacks = new Map([
  ['verified', [true, 200]],
  ['key-missing', [true, 200]], // ask the platform team for the control key of the login
  ['not-verified', [false, 403]],
  ['invalid', [false, 400]],
  ['unavailable', [false, 503]],
]);

/** Errors before a connection. */
const unconnected = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'];

/** Seconds; longer than Countersign waits for the gateway. */
const timeout = 35;

/** Why what a query says is left to a person. A refund has no status of a payment, or of another refund. 12.5 is 12.50. */
function doubtOf(order, { next, fields }) {
  const serialNumber = order['by-request-sn'];
  const isEchoed = (fields['by-request-sn'] ?? serialNumber) === serialNumber;
  if (serialNumber) return (['paid', 'not-paid'].includes(next) || !isEchoed) && 'another stage';
  const { amount, currency } = order;
  const isOrdered = amount && currency && Number(amount) === Number(fields.amount) && currency === fields.currency;
  return next === 'paid' && !isOrdered && 'another amount';
}

function decided(table, response) {
  const [row, next] = table.find(([, , applies]) => applies(response));
  return { ...response, row, next };
}

export class Countersign {
  #url;
  #options;

  /**
   * @param url with environment and product, such as http://127.0.0.1:8080/sandbox/gw
   * @param options `login` and `endpoint` of the gateway; `token`, a function that returns the service's bearer token
   */
  constructor(url, options) {
    this.#url = url.replace(/\/$/, '');
    this.#options = options;
  }

  /**
   * Sends a payment once, such as `v4/transfer`, and says what to do now: `next`. Store the order ID before.
   * This never repeats it: nothing here does.
   */
  async pay(command, form) {
    return decided(afterSending, await this.post(`/api/${command}/${this.#options.endpoint}`, form));
  }

  /**
   * Sends a refund once, and queries what became of it. Only its serial number tells it from the payment and from other
   * refunds: a person decides about one without. Begin one when the last one of the order is decided.
   *
   * @param form has client_orderid, orderid, and for a part of the payment amount and currency
   * @param store stores the serial number, with which `untilDecided` goes on after a restart
   */
  async refund(form, store, seconds) {
    const sent = await this.pay('v2/return', form);
    const serialNumber = sent.fields['serial-number'];
    if (sent.next !== 'query') return sent;
    if (!serialNumber || typeof serialNumber !== 'string') return { ...sent, next: 'ask-support' };
    await store(serialNumber);
    const { client_orderid, orderid } = form;
    const found = await this.untilDecided({ client_orderid, orderid, 'by-request-sn': serialNumber }, seconds);
    return { ...found, message: sent.message ?? found.message }; // why it was not made
  }

  /**
   * What became of an order, and what to do now.
   *
   * @param order has client_orderid, amount and currency: it is paid only if the status has the same. A refund has
   * client_orderid, orderid and by-request-sn
   */
  async status(order) {
    const { login, endpoint } = this.#options;
    // With the orderid of a payment, a second one with its client_orderid would not be seen.
    const names = order['by-request-sn'] ? ['client_orderid', 'orderid', 'by-request-sn'] : ['client_orderid'];
    const form = Object.fromEntries(names.map((name) => [name, order[name]]));
    const found = decided(afterQuery, await this.post(`/api/v4/status/${endpoint}`, { login, ...form }));
    const doubt = doubtOf(order, found);
    return doubt ? { ...found, row: doubt, next: 'ask-support' } : found;
  }

  /** Queries the status until nothing is left to query: at most for 15 minutes, then a person decides. */
  async untilDecided(order, seconds = 900) {
    const deadline = performance.now() + seconds * 1000;
    for (let pause = 1; ; pause = Math.min(2 * pause, 60)) {
      const found = await this.status(order);
      const left = deadline - performance.now();
      if (found.next !== 'query') return found;
      if (left <= 0) return { ...found, next: 'ask-support' };
      await setTimeout(Math.min(Math.max(pause, found.retryAfter) * 1000, left));
    }
  }

  /**
   * Verifies a callback or redirect, and then queries the status: a callback is a reason to query, never the status.
   *
   * @param received the query string or body, unchanged
   * @param stored returns what is known of a client_orderid, or a promise of it
   * @returns `result`; `respondWith`, the status for the gateway; of the query, if there was one, `order` and `found`
   */
  async callback(received, stored) {
    const { status, fields } = await this.post(`/verify-callback/login/${this.#options.login}`, received);
    const said = status === 200 ? fields.result : status === 400 ? 'invalid' : undefined;
    const result = callbacks.has(said) ? said : 'unavailable';
    const [isToQuery, respondWith] = callbacks.get(result);
    if (!isToQuery) return { result, respondWith };
    const client_orderid = new URLSearchParams(received).get('client_orderid') ?? '';
    const order = { ...(await stored(client_orderid)), client_orderid };
    const found = await this.status(order);
    return { result, respondWith: found.row === 'no response' ? 503 : respondWith, order, found };
  }

  /** Posts a form, or its text. Without a response the outcome is `unknown`, without a connection `not-sent`. */
  async post(path, form = {}) {
    const { token } = this.#options;
    try {
      // Not fetch(), which sends a payment again after a response 421.
      const request = (this.#url.startsWith('https:') ? https : http).request(this.#url + path, {
        method: 'POST',
        headers: {
          Accept: 'application/json',
          'Content-Type': 'application/x-www-form-urlencoded',
          ...(token && { Authorization: `Bearer ${await token()}` }),
        },
        signal: AbortSignal.timeout(timeout * 1000),
      });
      request.on('error', () => {}); // also after the response has begun
      request.end(typeof form === 'string' ? form : new URLSearchParams(form).toString());
      const [response] = await once(request, 'response');
      return this.#read(response, await text(response));
    } catch (error) {
      const outcome = unconnected.includes(error.code) ? 'not-sent' : 'unknown';
      return { status: 0, outcome, reason: String(error), retryAfter: 0, body: '', fields: {} };
    }
  }

  #read({ statusCode: status, headers }, body) {
    const json = parsed(body);
    const isProblem = headers['content-type']?.startsWith('application/problem+json');
    const orderMismatch = headers['countersign-order-mismatch'];
    const fields = isProblem || orderMismatch ? {} : json;
    return {
      status,
      outcome: headers['countersign-outcome'] ?? 'unknown',
      reason: isProblem ? json.reason : undefined, // of Countersign's own error: docs/errors.md
      message: isProblem ? json.detail : fields['error-message'],
      requestId: headers['x-request-id'], // finds the log line
      orderMismatch, // it is about another order: take nothing from it
      retryAfter: Number.parseInt(headers['retry-after']) || 0, // seconds
      body,
      fields, // of the body, if it is a form or JSON; of a repeated one an array
      orderId: fields[`${this.#url.split('/').at(-1)}-order-id`], // of the gateway: the name begins with the product
    };
  }
}

/** The members of a JSON object, or none. */
function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
