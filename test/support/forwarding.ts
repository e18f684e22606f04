import { type IncomingHttpHeaders, type OutgoingHttpHeaders, type RequestOptions, request } from 'node:http';

/** What a caller received. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** `false`: the connection ended before the response did. */
  readonly complete: boolean;
}

export const paths = {
  balance: '/sandbox/gw/api/v2/get-balance/manager/acme',
  status: '/sandbox/gw/api/v4/status/1234',
  transfer: '/sandbox/gw/api/v4/transfer/1234',
} as const;

export const statusForm = 'login=acme&client_orderid=invoice-1';
export const transferForm = 'client_orderid=invoice-7&amount=12.50&currency=EUR';

/** Posts a form on a new connection, unless the options have an agent. @throws the error if no head of a response comes */
export function post(
  url: string,
  form: string,
  headers: OutgoingHttpHeaders = {},
  options: RequestOptions = {},
): Promise<HttpResponse> {
  const own = {
    'Content-Type': 'application/x-www-form-urlencoded',
    'Content-Length': Buffer.byteLength(form),
  };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent: false, headers: { ...own, ...headers }, ...options });
    sent.once('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      // A break shows as `complete: false`.
      sent.off('error', reject).once('error', () => {});
      response.once('error', () => {});
      response.once('close', () => {
        const { statusCode: status = 0, headers: received, complete } = response;
        resolve({ status, headers: received, body: Buffer.concat(chunks).toString(), complete });
      });
    });
    sent.once('error', reject).end(form);
  });
}

/** What a response of Countersign itself says about the request, in one line. */
export function verdict({ status, headers, body }: HttpResponse): string {
  const { reason, outcome } = JSON.parse(body);
  return `${status} ${reason} ${outcome} ${String(headers['countersign-outcome'])}`;
}
