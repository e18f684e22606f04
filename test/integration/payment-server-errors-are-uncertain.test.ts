import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';

const { balance, status, transfer } = paths;

const starts = harness();
let edge: Edge;
let gatewayStatus: number;

beforeEach(async () => {
  gatewayStatus = 502;
  edge = await starts.edge();
  edge.gateway.respond = (response) => {
    response.statusCode = gatewayStatus;
    response.end('<h1>Oh</h1>');
  };
});

const payment = formRequest(transfer, 'client_orderid=1');

async function serverErrors(): Promise<string[]> {
  const page = await edge.metrics();
  return page.split('\n').filter((line) => line.startsWith('countersign_payment_server_errors_total{'));
}

const counts = (transfers: number): string[] => [
  'countersign_payment_server_errors_total{environment="sandbox",operation="pan-eligibility-send"} 0',
  `countersign_payment_server_errors_total{environment="sandbox",operation="transfer"} ${transfers}`,
];

describe('a gateway 5xx', () => {
  it('on a payment is forwarded as answered, advises to query the status, and is counted', async () => {
    const response = await edge.send(payment);
    expect(response.status).toBe(502);
    expect(response.body.toString()).toBe('<h1>Oh</h1>');
    expect(response.headers['countersign-outcome']).toBe('answered');
    expect(response.headers['proxy-status']).toMatch(
      // A structured field string: printable ASCII without quotation marks and backslashes.
      /^countersign; received-status=502; details="The request may have been processed\. Query the [ !#-[\]-~]+"$/,
    );
    expect(await serverErrors()).toEqual(counts(1));
  });

  it('on a read-only operation is not counted', async () => {
    for (const request of [formRequest(balance), formRequest(status, statusForm)]) {
      const response = await edge.send(request);
      expect(response.status).toBe(502);
      expect(response.headers['proxy-status']).toBe('countersign; received-status=502');
    }
    expect(await serverErrors()).toEqual(counts(0));
  });
});

describe('two 503s', () => {
  /** The header that the example for Envoy in docs/payments.md retries on. */
  function retriedOn(): (headers: IncomingHttpHeaders) => boolean {
    const page = readFileSync('docs/payments.md', 'utf8');
    const blocks = [...page.matchAll(/```yaml\n([^`]*)```/g)].map(([, text = '']) => text);
    const text = blocks.find((block) => block.includes('retriable_headers')) ?? '';
    const { retry_policy: policy } = parse(text).route;
    const [matcher, ...others] = policy.retriable_headers;
    expect([policy.retry_on, others]).toEqual(['retriable-headers', []]);
    return (headers) => headers[matcher.name] === matcher.string_match.exact;
  }

  it('look the same to a mesh but for the outcome: only what was not sent may be retried', async () => {
    gatewayStatus = 503;
    const ofGateway = await edge.send(payment);
    // Without a key nothing can be sent.
    const elsewhere = await starts.edge({
      config: {
        keys: {
          source: 'vault',
          vault: { address: 'http://127.0.0.1:1', auth: { method: 'token', tokenFile: '/dev/null' } },
        },
      },
    });
    const own = await elsewhere.send(payment);
    const seen = [ofGateway, own].map(({ status, headers }) => [status, headers['countersign-outcome']]);
    expect(seen).toEqual([
      [503, 'answered'],
      [503, 'not-sent'],
    ]);
    const retries = retriedOn();
    expect([ofGateway, own].map(({ headers }) => retries(headers))).toEqual([false, true]);
    expect([edge, elsewhere].map(({ gateway }) => gateway.requests.length)).toEqual([1, 0]);
  });
});

describe('any other response to a payment', () => {
  it.each([200, 302, 403, 499])('is not counted: %i', async (code) => {
    gatewayStatus = code;
    const response = await edge.send(payment);
    expect(response.headers['proxy-status']).toBe(`countersign; received-status=${code}`);
    expect(await serverErrors()).toEqual(counts(0));
  });

  it('is not counted if it is truncated, since its outcome is unknown already', async () => {
    edge.gateway.respond = (response) => {
      response.writeHead(500, { 'Content-Length': 100 });
      response.write('<h1>');
      setTimeout(() => response.destroy(), 20);
    };
    const response = await edge.send(payment);
    expect(response.headers['countersign-outcome']).toBe('unknown');
    expect(await serverErrors()).toEqual(counts(0));
  });
});
