import type { RawResponse } from '../support/response-reader.ts';
import { inspectBody } from './gateway-response.ts';
import type { ReceivedResponse } from './ledger.ts';
import { type OperationName, type RequestPlan, traceIdOf } from './plan.ts';

const paths: Readonly<Record<OperationName, string>> = {
  transfer: '/api/v4/transfer/',
  'order-status': '/api/v4/status/',
  'manager-balance': '/api/v2/get-balance/manager/acme/',
};

/** Path, headers and form of a request to the proxy. */
export function requestParts(
  plan: RequestPlan,
  seed: number,
): { readonly path: string; readonly headers: Record<string, string>; readonly form: string } {
  const form = formOf(plan);
  const length: Record<string, string> = plan.chunked
    ? { 'Transfer-Encoding': 'chunked' }
    : { 'Content-Length': String(form.length) };
  return {
    path: `/${plan.site}/gw${paths[plan.operation]}${plan.orderId}`,
    headers: {
      'Content-Type': 'application/x-www-form-urlencoded',
      ...length,
      traceparent: `00-${traceIdOf(seed, plan.index)}-00000000000000ff-01`,
      ...(plan.operation === 'transfer' ? { 'Countersign-Login': 'acme' } : {}),
    },
    form,
  };
}

/** The same as text: head and body. */
export function requestBytes(
  plan: RequestPlan,
  seed: number,
  lines: readonly string[] = [],
): { readonly head: string; readonly body: string } {
  const { path, headers, form } = requestParts(plan, seed);
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const head = [`POST ${path} HTTP/1.1`, 'Host: countersign.test', ...fields, ...lines];
  const body = plan.chunked ? `${form.length.toString(16)}\r\n${form}\r\n0\r\n\r\n` : form;
  return { head: `${head.join('\r\n')}\r\n\r\n`, body };
}

function formOf({ operation, orderId, padding }: RequestPlan): string {
  const login = operation === 'order-status' ? 'login=acme&' : '';
  return `${login}client_orderid=${orderId}&amount=12.50&note=${'n'.repeat(padding)}`;
}

/** The parts of a response that the ledger records. */
export function received({ status, headers, body, complete }: RawResponse): ReceivedResponse {
  const outcome = headers['countersign-outcome'];
  const own = headers['content-type']?.startsWith('application/problem+json') ?? false;
  const fromGateway = outcome === 'answered' && !own;
  const inspected = fromGateway ? inspectBody(body) : { orderId: undefined, state: 'none' as const };
  return {
    status,
    outcome,
    problem: own && complete ? problemOf(body) : undefined,
    requestId: headers['x-request-id'],
    saysClose: headers['connection']?.toLowerCase() === 'close',
    complete,
    bodyOf: inspected.orderId,
    body: inspected.state,
  };
}

function problemOf(body: Buffer): { outcome: string; reason: string } {
  const document = parsed(body.toString());
  const field = (name: string): string =>
    typeof document === 'object' && document !== null ? String(Reflect.get(document, name)) : '';
  return { outcome: field('outcome'), reason: field('reason') };
}

/** `undefined` for text that is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
