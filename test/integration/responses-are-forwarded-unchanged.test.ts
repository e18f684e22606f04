import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { nextIsServed } from '../support/countersign.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { formRequest } from '../support/raw-http.ts';
import type { RawResponse } from '../support/response-reader.ts';

const { balance, status } = paths;

const starts = harness(afterAll);
let edge: Edge;

beforeAll(async () => {
  edge = await starts.edge({ sandbox: { responseHeaders: ['X-Gateway-Node', 'Content-Length'] } });
});

const html = 'text/html;charset=utf-8';
const axios = 'Accept: application/json, text/plain, */*';
const serialNumber = '00000000-0000-0000-0000-0000000624e9';
const responseForm = `type=status-response\n&serial-number=${serialNumber}\n&status=approved\n&descriptor=a+b%26c%0A\n`;

type Headers = Readonly<Record<string, string | string[]>>;

/** Forwards a gateway response, and returns what the client got. */
async function pass(
  body: string | Buffer,
  {
    code = 200,
    headers = { 'Content-Type': html },
    lines = [],
  }: Partial<{ code: number; headers: Headers; lines: string[] }> = {},
): Promise<RawResponse> {
  edge.gateway.respond = (response) => {
    response.sendDate = false;
    response.writeHead(code, headers).end(body);
  };
  return edge.send(formRequest(status, statusForm, lines));
}

afterEach(() => {
  edge.gateway.respond = (response) => response.end('OK');
});

describe('a gateway response', () => {
  it.each([
    ['a form with its line feeds', responseForm],
    ['HTML', '<!DOCTYPE html>\r\n<p>Access is denied</p>\n'],
    ['every byte there is', Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
    ['nothing', ''],
    ['half a megabyte', Buffer.alloc(524_288, '0123456789\n')],
  ])('is forwarded byte for byte: %s', async (_, body) => {
    const response = await pass(body);
    expect(response.status).toBe(200);
    expect(response.body.equals(Buffer.from(body))).toBe(true);
    expect(response.headers['content-type']).toBe(html);
  });

  it.each([201, 302, 400, 403, 404, 429, 500, 503, 599])(
    'keeps its status %d and is marked as the gateway’s',
    async (code) => {
      const response = await pass('text', {
        code,
        headers: { 'Content-Type': 'text/plain', Location: '/elsewhere' },
      });
      expect(response.status).toBe(code);
      expect(response.headers['countersign-outcome']).toBe('answered');
      expect(response.headers['proxy-status']).toBe(`countersign; received-status=${code}`);
      expect(response.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
      expect(response.headers.location).toBeUndefined();
    },
  );

  it('keeps its content encoding, whatever the client accepts', async () => {
    const body = gzipSync(responseForm);
    const response = await pass(body, {
      headers: { 'Content-Type': html, 'Content-Encoding': 'gzip' },
      lines: [axios],
    });
    expect(response.headers['content-encoding']).toBe('gzip');
    expect(response.body.equals(body)).toBe(true);
  });

  it('is not parsed as a form if it is encoded', async () => {
    const response = await pass('a=b', {
      headers: { 'Content-Type': html, 'Content-Encoding': 'x-own' },
      lines: [axios],
    });
    expect(response.body.toString()).toBe('a=b');
  });

  it('leaves the connection open for the next request', async () => {
    const connection = await edge.connect();
    await connection.send(formRequest(balance)).response();
    expect(await nextIsServed(connection)).toBe(true);
  });
});

describe('the gateway’s headers', () => {
  it('are forwarded from a list', async () => {
    const headers = {
      'Content-Type': html,
      Date: 'Thu, 01 Jan 2026 00:00:00 GMT',
      'Retry-After': '7',
      'Cache-Control': 'max-age=3',
      'X-Gateway-Node': 'n1',
      'Set-Cookie': ['a=b', 'c=d'],
      Server: 'gw/1',
      'WWW-Authenticate': 'OAuth realm="gw"',
      'Access-Control-Allow-Origin': '*',
      'Keep-Alive': 'timeout=999',
      Connection: 'close, X-Hop',
      'X-Hop': '1',
      Location: '/gw/',
    };
    const response = await pass('text', { headers });
    expect(response.headers).toMatchObject({
      'content-type': html,
      date: headers.Date,
      'retry-after': '7',
      'cache-control': 'max-age=3',
      'x-gateway-node': 'n1',
      'content-length': '4',
    });
    const removed = [
      'set-cookie',
      'server',
      'www-authenticate',
      'access-control-allow-origin',
      'location',
      'x-hop',
    ];
    for (const name of removed) expect(response.headers).not.toHaveProperty(name);
    expect(response.headers['keep-alive']).not.toBe('timeout=999');
  });

  it('cannot pose as Countersign’s', async () => {
    const response = await pass('text', {
      headers: {
        'Countersign-Outcome': 'not-sent',
        'X-Request-Id': 'theirs',
        'Proxy-Status': 'theirs; error=dns_error',
      },
    });
    expect(response.headers['countersign-outcome']).toBe('answered');
    expect(response.headers['x-request-id']).not.toContain('theirs');
    expect(response.headers['proxy-status']).toBe('countersign; received-status=200');
  });
});

describe('a form requested as JSON', () => {
  it.each([
    ['application/json', 'Accept: application/json'],
    ['the Accept header of axios', axios],
    ['application/*', 'Accept: application/*'],
    ['JSON rather than HTML', 'Accept: text/html;q=0.5, application/json'],
    ['JSON with a charset', 'Accept: application/json; charset=utf-8'],
    ["the gateway's own JSON", 'Accept: application/vnd.pay+json'],
  ])('is an object of its decoded values: %s', async (_, accept) => {
    const response = await pass(responseForm, { lines: [accept] });
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(response.headers['content-length']).toBe(String(response.body.length));
    expect(JSON.parse(response.body.toString())).toEqual({
      type: 'status-response',
      'serial-number': serialNumber,
      status: 'approved',
      descriptor: 'a b&c\n',
    });
  });

  it('has the length of the object, not the Content-Length of the form', async () => {
    const headers = { 'Content-Type': html, 'Content-Length': String(Buffer.byteLength(responseForm)) };
    const response = await pass(responseForm, { headers, lines: [axios] });
    expect(response.headers['content-length']).toBe(String(response.body.length));
    expect(JSON.parse(response.body.toString())).toHaveProperty('serial-number', serialNumber);
  });

  it.each([
    ['nothing', []],
    ['anything', ['Accept: */*']],
    ['HTML', ['Accept: text/html']],
    ['HTML rather than JSON', ['Accept: text/html, application/json;q=0.9']],
    ['no JSON', ['Accept: application/json;q=0, */*']],
    ['something else', ['Accept: image/png']],
  ])('is unchanged if the client accepts %s', async (_, lines) => {
    expect((await pass(responseForm, { lines })).body.toString()).toBe(responseForm);
  });

  it('has an array for a repeated name and keeps names of Object.prototype', async () => {
    const { body } = await pass('a=1\n&__proto__=x\n&a=2\n&constructor=\n', { lines: [axios] });
    expect(body.toString()).toBe('{"a":["1","2"],"__proto__":"x","constructor":""}\n');
  });

  it('decodes unescaped bytes as UTF-8', async () => {
    const { body } = await pass('name=José+%C3%89\n', { lines: [axios] });
    expect(JSON.parse(body.toString())).toEqual({ name: 'José É' });
  });

  it.each([
    ['a bad escape', 'a=%zz\n&b=c\n'],
    ['escapes that are no UTF-8', 'a=%FF\n'],
    ['bytes that are no UTF-8', Buffer.from('a=\xff\n', 'latin1')],
    ['HTML', '<a href="?a=b">'],
    ['JSON', '[{"name":"a=b"}]'],
    ['more than 1,000 fields', 'a=1\n&'.repeat(1_001)],
    ['more than 256 KiB', `a=${'b'.repeat(262_144)}\n`],
  ])('is forwarded unchanged if it cannot be decoded: %s', async (_, body) => {
    const response = await pass(body, { lines: [axios] });
    expect(response.headers['content-type']).toBe(html);
    expect(response.body.equals(Buffer.from(body))).toBe(true);
  });

  it('does not change JSON', async () => {
    const headers = { 'Content-Type': 'application/json' };
    const response = await pass('[ {"amount": 1.000} ]\n', { headers, lines: [axios] });
    expect(response.body.toString()).toBe('[ {"amount": 1.000} ]\n');
    expect(response.headers['content-type']).toBe('application/json');
  });
});

it('the log line of a request has what is known about it, and nothing of its content', async () => {
  const { headers } = await pass(responseForm);
  const line = edge.logLines().find(({ requestId }) => requestId === headers['x-request-id']);
  expect(line).toMatchObject({
    status: 200,
    outcome: 'answered',
    attempts: 1,
    gatewayStatus: 200,
    gatewayResult: 'approved',
    serialNumber,
  });
  expect(JSON.stringify(line)).not.toMatch(/o-1|descriptor/);
});
