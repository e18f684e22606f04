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
  const ports = ['--port', '0', '--admin-port', '0', '--gateway-port', '0', '--gateway-admin-port', '0'];
  demo = spawn('countersign', ['demo', ...ports, '--ready-file', readyFile], { stdio: 'ignore' });
  while (!existsSync(readyFile)) {
    if (demo.exitCode !== null) throw new Error('the demo did not start');
    await setTimeout(50);
  }
  ({ proxyUrl } = JSON.parse(readFileSync(readyFile, 'utf8')));
});

after(() => demo.kill());

test('a transfer is approved', async () => {
  const form = new URLSearchParams({ client_orderid: 'order-1', amount: '12.50', currency: 'EUR' });
  const response = await fetch(`${proxyUrl}/sandbox/gw/api/v4/transfer/1234`, { method: 'POST', body: form });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('Countersign-Outcome'), 'answered');
});

test('an order is known by its ID', async () => {
  const form = new URLSearchParams({ login: 'acme', client_orderid: 'invoice-1' });
  const headers = { Accept: 'application/json' };
  const url = `${proxyUrl}/sandbox/gw/api/v4/status/1234`;
  const response = await fetch(url, { method: 'POST', body: form, headers });
  assert.equal((await response.json()).status, 'approved');
});

test('the outcome of a transfer can be unknown', async () => {
  // The scenario of the simulator loses the response to this order.
  const form = new URLSearchParams({ client_orderid: 'lost-response', amount: '1.00', currency: 'EUR' });
  const response = await fetch(`${proxyUrl}/sandbox/gw/api/v4/transfer/1234`, { method: 'POST', body: form });
  assert.equal(response.headers.get('Countersign-Outcome'), 'unknown');
});
