import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from '@jest/globals';
import { everything, tokenCredential } from '../support/config.ts';
import { blocksOf } from '../support/doc-examples.ts';
import { harness } from '../support/harness.ts';
import { root } from '../support/sources.ts';

const starts = harness();

/** What differs from run to run, and the names of the example. */
const masked = (request: string): string =>
  request
    .replace(/(oauth_(?:nonce|timestamp|signature)="?)[^"&\s]+/g, '$1...')
    .replace(/^(Host): .*/m, '$1: gateway.example');

it('the README shows what a service sends, and what the gateway gets', async () => {
  const blocks = blocksOf(readFileSync(join(root, 'README.md'), 'utf8'), 'http');
  const [before = '', after = ''] = blocks.map((block) => block.text.trimEnd());
  const [, token = ''] = /Bearer (.*)/.exec(before) ?? [];
  const callers = [{ name: 'shop', credentials: [tokenCredential(token)], allow: [everything] }];
  const { url, gateway } = await starts.edge({ config: { callers } });
  const { hostname, port } = new URL(url);
  const [head = '', body = ''] = before.split('\n\n');
  const socket = connect(Number(port), hostname);
  // curl adds the length, and the block leaves it out.
  const lines = [...head.split('\n'), `Content-Length: ${body.length}`, 'Connection: close', '', body];
  socket.write(lines.join('\r\n'));
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /);

  const [request] = gateway.requests;
  if (request === undefined) throw new Error('the gateway got nothing');
  const { method, target, rawHeaders, body: received } = request;
  const shown = new Set(['Host', 'Content-Type', 'Authorization']);
  const headers = rawHeaders.flatMap((name, index) =>
    index % 2 === 0 && shown.has(name) ? [`${name}: ${rawHeaders[index + 1]}`] : [],
  );
  const whole = [`${method} ${target} HTTP/1.1`, ...headers, '', String(received)].join('\n');
  expect(masked(after.replaceAll('\n  ', ' '))).toBe(masked(whole));
});
