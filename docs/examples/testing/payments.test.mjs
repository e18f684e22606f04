// Run with: node --test payments.test.mjs
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';

let demo;
let proxyUrl;

before(async () => {
  const readyFile = join(mkdtempSync(join(tmpdir(), 'payments-')), 'ready.json');
  demo = spawn('countersign', ['demo', '--port', '0', '--ready-file', readyFile], { stdio: 'ignore' });
  while (!existsSync(readyFile)) {
    if (demo.exitCode !== null) throw new Error('the demo did not start');
    await setTimeout(50);
  }
  ({ proxyUrl } = JSON.parse(readFileSync(readyFile, 'utf8')));
});

after(() => demo.kill());

function post(path, form) {
  const options = { method: 'POST', body: new URLSearchParams(form), headers: { Accept: 'application/json' } };
  return fetch(`${proxyUrl}/sandbox/gw/api${path}`, options);
}

/** What the order is when it is no longer in progress. */
async function finalStatus(client_orderid) {
  for (;;) {
    const { status } = await (await post('/v4/status/1234', { login: 'acme', client_orderid })).json();
    if (status !== 'processing') return status;
    await setTimeout(200);
  }
}

test('a transfer is approved', async () => {
  const response = await post('/v4/transfer/1234', { client_orderid: 'order-1', amount: '12.50', currency: 'EUR' });
  assert.equal(response.headers.get('Countersign-Outcome'), 'answered');
  assert.equal(await finalStatus('order-1'), 'approved');
});

test('a transfer of unknown outcome can be approved', async () => {
  // The scenario of the simulator loses the response to this order.
  const form = { client_orderid: 'lost-response', amount: '1.00', currency: 'EUR' };
  const response = await post('/v4/transfer/1234', form);
  assert.equal(response.headers.get('Countersign-Outcome'), 'unknown');
  assert.equal(await finalStatus('lost-response'), 'approved');
});
