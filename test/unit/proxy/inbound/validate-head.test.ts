import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../../src/errors.ts';
import { validateRequestHead } from '../../../../src/proxy/inbound/validate-head.ts';

/** The reason for which such a request is rejected. */
function reasonOf(httpVersion: string, headers: Readonly<Record<string, string>>): string {
  const request = new IncomingMessage(new Socket());
  const rawHeaders = Object.entries(headers).flat();
  Object.assign(request, { httpVersion, method: 'POST', url: '/', rawHeaders, headers });
  try {
    validateRequestHead(request, []);
  } catch (error) {
    if (error instanceof ProxyError) return error.reason;
    throw error;
  }
  return 'none';
}

describe('a request', () => {
  it('needs a Host header in HTTP/1.1, but not in HTTP/1.0', () => {
    expect(reasonOf('1.1', {})).toBe('bad-request');
    expect(reasonOf('1.1', { host: 'x' })).toBe('none');
    expect(reasonOf('1.0', {})).toBe('none');
  });

  it('may have any Expect header in HTTP/1.0, which is ignored there', () => {
    expect(reasonOf('1.1', { host: 'x', expect: '200-ok' })).toBe('bad-request');
    expect(reasonOf('1.1', { host: 'x', expect: '100-Continue' })).toBe('none');
    expect(reasonOf('1.0', { expect: '200-ok' })).toBe('none');
  });

  it('may omit Content-Type only without a body', () => {
    const host = 'x';
    expect(reasonOf('1.1', { host, 'content-length': '0' })).toBe('none');
    expect(reasonOf('1.1', { host, 'content-length': '1' })).toBe('unsupported-media-type');
    expect(reasonOf('1.1', { host, 'transfer-encoding': 'chunked' })).toBe('unsupported-media-type');
  });

  it.each(['content_encoding', 'content.length', 'Content_Type', 'countersign.login', 'transfer_encoding'])(
    'must not have a header %s, which others could read with a dash',
    (name) => {
      expect(reasonOf('1.1', { host: 'x', [name]: '0' })).toBe('bad-request');
      expect(reasonOf('1.1', { host: 'x', [`x_${name}`]: '0' })).toBe('none');
    },
  );
});
