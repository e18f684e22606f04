import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../../src/errors.ts';
import { validateRequestHead } from '../../../../src/proxy/inbound/validate-head.ts';

/** What is said of a request of this HTTP version with these headers. */
function reasonOf(httpVersion: string, headers: Readonly<Record<string, string>>): string {
  const request = new IncomingMessage(new Socket());
  const rawHeaders = Object.entries(headers).flat();
  Object.assign(request, { httpVersion, method: 'POST', url: '/', rawHeaders, headers });
  try {
    validateRequestHead(request);
  } catch (error) {
    if (error instanceof ProxyError) return error.reason;
    throw error;
  }
  return 'none';
}

describe('a request', () => {
  it('needs a Host in HTTP/1.1, and in HTTP/1.0 not', () => {
    expect(reasonOf('1.1', {})).toBe('bad-request');
    expect(reasonOf('1.1', { host: 'x' })).toBe('none');
    expect(reasonOf('1.0', {})).toBe('none');
  });

  it('may expect anything in HTTP/1.0, where expectations are ignored', () => {
    expect(reasonOf('1.1', { host: 'x', expect: '200-ok' })).toBe('bad-request');
    expect(reasonOf('1.1', { host: 'x', expect: '100-Continue' })).toBe('none');
    expect(reasonOf('1.0', { expect: '200-ok' })).toBe('none');
  });

  it('may leave out its type only if it has no body', () => {
    const host = 'x';
    expect(reasonOf('1.1', { host, 'content-length': '0' })).toBe('none');
    expect(reasonOf('1.1', { host, 'content-length': '1' })).toBe('unsupported-media-type');
    expect(reasonOf('1.1', { host, 'transfer-encoding': 'chunked' })).toBe('unsupported-media-type');
  });
});
