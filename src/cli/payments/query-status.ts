import type { Agent } from 'node:http';
import { isShownInFull } from '../../gateway/order-id.ts';
import {
  type Advice,
  adviceOf,
  type Decision,
  refunds,
  type StatusRowName,
  statusRowOf,
} from '../../gateway/payment-status.ts';
import { parseResponse } from '../../gateway/response.ts';
import { isStatusPath } from '../../gateway/status-path.ts';
import { identifierPattern } from '../../identifiers.ts';
import { NoResponse, type SmallResponse, sendSmallRequest } from '../../net/small-request.ts';
import { redactText } from '../../redact-card-data.ts';
import { isoTime } from '../../util/clock.ts';
import { entriesOf, parseJson, printable } from '../../util/text.ts';
import type { UnknownPayment } from './read-payments.ts';

/** The proxy port of a Countersign, and who queries there. */
export interface Proxy {
  readonly url: URL;
  /** Absent: without credentials. */
  readonly token: string | undefined;
  readonly agent: Agent;
}

/** What a query found. The names are those of `--json`. */
export interface PaymentResult {
  readonly requestId: string;
  /** Of the payment. */
  readonly at: string;
  readonly environment: string;
  readonly login: string;
  readonly operation: string;
  readonly orderId: string;
  readonly decision: Decision;
  readonly row: StatusRowName | 'not queried';
  readonly advice: string;
  /** What the response says besides; empty if nothing. */
  readonly detail: string;
}

/** Milliseconds; longer than Countersign waits for the gateway. */
const timeout = 35_000;

const maxResponseBytes = 1024 * 1024;

/** Of a text of the gateway. */
const maxDetail = 200;

/** Queries the status of one payment. Posts to nothing but the path of a status query. */
export async function queryStatus(
  payment: UnknownPayment,
  proxy: Proxy,
  clock: () => number,
): Promise<PaymentResult> {
  const { requestId, at, environment, login, operation, orderId } = payment;
  const about = { requestId, at: isoTime(at), environment, login, operation, orderId };
  const missing = missingIn(payment);
  if (missing !== undefined) {
    const advice = `${missing}: ask the caller for the order of this request`;
    return { ...about, decision: 'ask-support', row: 'not queried', advice, detail: '' };
  }
  const response = await responseTo(payment, proxy);
  if (typeof response === 'string')
    return { ...about, decision: 'query-again', row: 'not queried', advice: printable(response), detail: '' };
  const { row, detail } = read(response, payment);
  const ofRow = adviceOf(row, clock() - at);
  const isFinal = ofRow.decision !== 'ask-support' && ofRow.decision !== 'query-again';
  // An order can have several, and what was logged has no amount.
  const { decision, text: advice }: Advice =
    isFinal && stageOf.has(operation)
      ? { decision: 'ask-support', text: `the latest ${operation} of the order, if it is this one` }
      : ofRow;
  return { ...about, decision, row, advice, detail: printable(redactText(detail)).slice(0, maxDetail) };
}

/** What is needed to query a payment and is not known. */
function missingIn({ login, orderId, statusPath }: UnknownPayment): string | undefined {
  if (!isShownInFull(orderId)) return 'its order ID is not shown in full';
  if (!identifierPattern.test(login)) return 'its login is not shown';
  return isStatusPath(statusPath)
    ? undefined
    : 'no status query by its endpoint and client_orderid alone is known';
}

/** The response to a query that may have reached the gateway, or why there is none. */
async function responseTo(
  { login, orderId, statusPath }: UnknownPayment,
  { url, token, agent }: Proxy,
): Promise<SmallResponse | string> {
  const request = {
    method: 'POST',
    url: new URL(statusPath, url),
    headers: {
      'Content-Type': 'application/x-www-form-urlencoded',
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    },
    body: new URLSearchParams({ login, client_orderid: orderId }).toString(),
  };
  try {
    const response = await sendSmallRequest(request, { agent, timeout, maxResponseBytes });
    const { status, headers } = response;
    const outcome = headers['countersign-outcome'];
    if (outcome === undefined) return `status ${status} is not from a proxy port of Countersign: check --url`;
    return outcome === 'not-sent' ? `Countersign did not send the query: ${reasonIn(response)}` : response;
  } catch (error) {
    if (!(error instanceof NoResponse)) throw error;
    return `no response from Countersign: ${error.message}`;
  }
}

/** Published operations on an order that there is: its status is that of another stage unless it has this `transaction-type`. */
const stageOf: ReadonlyMap<string, readonly string[]> = new Map([
  ['return', refunds],
  ['capture', ['capture']],
]);

/** Rows that say what became of one stage of an order. */
const ofAStage: readonly StatusRowName[] = [
  'refunded',
  'not refunded',
  'approved',
  'declined',
  'in error',
  'unknown',
];

function read(
  response: SmallResponse,
  { operation, statusPath }: UnknownPayment,
): { readonly row: StatusRowName; readonly detail: string } {
  const { status, headers, bytes } = response;
  if (headers['countersign-order-mismatch'] !== undefined)
    return { row: 'no response', detail: 'it is about another order' };
  if (status !== 200) return { row: 'no response', detail: reasonIn(response) };
  const form = parseResponse(headers['content-type'], bytes);
  const [, , product = ''] = statusPath.split('/');
  const stage = stageOf.get(operation);
  const row = statusRowOf(form, product);
  const isAboutIt =
    stage === undefined ||
    form?.some(([name, value]) => name === 'transaction-type' && stage.includes(value));
  if (!isAboutIt && ofAStage.includes(row))
    return { row: 'processing', detail: `the status is not that of the ${operation} yet` };
  const details = [
    ['error-message', ''],
    ['error-code', 'code '],
    [`${product}-order-id`, "the gateway's order "],
  ].flatMap(([name, before = '']) => {
    const value = form?.find(([known]) => known === name)?.[1] ?? '';
    return value === '' ? [] : [before + value];
  });
  return { row, detail: details.join(', ') };
}

/** The status, and why Countersign responds itself. Not its detail, whose advice for the query may be taken for the payment. */
function reasonIn({ status, text }: SmallResponse): string {
  const { reason, title } = entriesOf(parseJson(text));
  if (typeof reason !== 'string') return `status ${status}`;
  return `status ${status}, ${reason}${typeof title === 'string' ? `: ${title}` : ''}`;
}
