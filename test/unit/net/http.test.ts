import { Server } from 'node:http';
import { afterEach, expect, it } from '@jest/globals';
import { closeServer, listen } from '../../../src/net/http.ts';

/** A machine on which these hosts fail with this code, as Node reports it. */
class Machine extends Server {
  readonly tried: string[] = [];
  readonly #failing: Readonly<Record<string, string>>;

  constructor(failing: Readonly<Record<string, string>>) {
    super();
    this.#failing = failing;
  }

  override listen(...given: unknown[]): this {
    const host = String(given[1]);
    this.tried.push(host);
    const code = this.#failing[host];
    if (code === undefined) return super.listen(0, '127.0.0.1');
    process.nextTick(() => this.emit('error', Object.assign(new Error(code), { code })));
    return this;
  }
}

let server: Machine;
afterEach(() => closeServer(server));

it('a machine without IPv6 listens for IPv4 in place of both', async () => {
  server = new Machine({ '::': 'EAFNOSUPPORT' });
  expect(await listen(server, { host: '::', port: 0 })).toMatch(/^http:\/\/0\.0\.0\.0:\d+$/);
  expect(server.tried).toEqual(['::', '0.0.0.0']);
});

it.each([
  ['::', 'EADDRINUSE'],
  ['::1', 'EAFNOSUPPORT'],
])('another failure is no reason to listen elsewhere: %s %s', async (host, code) => {
  server = new Machine({ [host]: code });
  await expect(listen(server, { host, port: 0 })).rejects.toThrow(code);
  expect(server.tried).toEqual([host]);
});
