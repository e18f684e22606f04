import { generateKeyPairSync } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import type { Fault } from '../../src/simulator/faults.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft,
  controlKey,
  fieldsOf,
  gatewayKeys,
  post,
  shippedScenario,
  statusDraft,
  transferDraft,
  wireOf,
} from '../support/simulator.ts';

const starts = harness();

const invoice1 = () => statusDraft([['client_orderid', 'invoice-1']]);

describe('the keys of a login', () => {
  const next = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const both = {
    controlKeys: [new Secret('next'), new Secret(controlKey)],
    publicKeys: [next.publicKey, ...gatewayKeys.publicKeys],
  };

  it('are all accepted while there are several, and counted by their place in the list', async () => {
    const { url, simulator } = await starts.simulator();
    simulator.keys.set('acme', both);
    await post(url, { ...balanceDraft(), key: 'next' });
    await post(url, balanceDraft());
    await post(url, { ...invoice1(), key: next.privateKey });
    await post(url, { ...invoice1(), key: next.privateKey });
    await post(url, invoice1());
    const { seen } = simulator;
    expect(seen.accepted({ operation: 'manager-balance', keyIndex: 0 })).toBe(1);
    expect(seen.accepted({ operation: 'manager-balance', keyIndex: 1 })).toBe(1);
    expect(seen.accepted({ operation: 'order-status', keyIndex: 0 })).toBe(2);
    expect(seen.accepted({ operation: 'order-status', keyIndex: 1 })).toBe(1);
  });

  it('are rejected as soon as they are removed', async () => {
    const { url, simulator } = await starts.simulator();
    expect((await post(url, invoice1())).status).toBe(200);
    simulator.keys.set('acme', { controlKeys: [], publicKeys: [next.publicKey] });
    expect((await post(url, invoice1())).headers['simulator-rejection']).toBe('signature-wrong');
    expect((await post(url, { ...invoice1(), key: next.privateKey })).status).toBe(200);
  });
});

it('counts received, accepted and rejected requests', async () => {
  const { url, simulator } = await starts.simulator();
  await post(url, balanceDraft());
  await post(url, balanceDraft([], 'beta'));
  await post(url, { ...balanceDraft(), key: 'another' });
  await post(url, invoice1());
  const { seen } = simulator;
  expect(seen.count()).toBe(4);
  expect(seen.count({ operation: 'manager-balance' })).toBe(3);
  expect(seen.accepted()).toBe(3);
  expect(seen.accepted({ login: 'acme' })).toBe(2);
  expect(seen.count({ rejection: 'signature-wrong' })).toBe(1);
  expect(seen.count({ rejection: 'nonce-replayed' })).toBe(0);
});

describe('a fault', () => {
  const withFault = (fault: Fault) => starts.simulator({ fault: () => fault });

  it('of the scenario comes after the effect: the transfer with the lost response exists', async () => {
    const { url, simulator } = await starts.simulator();
    const transfer = transferDraft([['client_orderid', 'lost-response']]);
    await expect(post(url, transfer)).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(simulator.seen.accepted({ operation: 'transfer' })).toBe(1);
    const status = await post(url, statusDraft([['client_orderid', 'lost-response']]));
    expect(fieldsOf(status.body)).toMatchObject({ status: 'processing' });
  });

  it('of the scenario hits only the requests that it names', async () => {
    const faults = 'faults: [{ operation: order-status, fault: status-500 }]';
    const scenario = loadScenario(shippedScenario().replace(/^faults:[^]*/m, faults));
    const { url } = await starts.simulator({ scenario });
    const responses = [await post(url, balanceDraft()), await post(url, invoice1())];
    expect(responses.map(({ status }) => status)).toEqual([200, 500]);
  });

  it('of the options precedes that of the scenario, and receives the request', async () => {
    const requests: unknown[] = [];
    const { url } = await starts.simulator({
      fault: (operation, { login, path }) => {
        requests.push([operation, login, path]);
        return {};
      },
    });
    expect((await post(url, transferDraft([['client_orderid', 'lost-response']]))).status).toBe(200);
    expect(requests).toEqual([['transfer', 'acme', { endpoint: '1234' }]]);
  });

  it('"garbage" is not HTTP', async () => {
    const { url, simulator } = await withFault({ fault: 'garbage' });
    await expect(post(url, invoice1())).rejects.toMatchObject({ code: 'HPE_INVALID_CONSTANT' });
    expect(simulator.journal.entries()).toMatchObject([{ status: null, fault: { fault: 'garbage' } }]);
  });

  it('"drip" sends a byte at a time, up to the last', async () => {
    const { url } = await withFault({ fault: 'drip' });
    const { authorization, body, path } = wireOf(url, invoice1());
    const chunks = await new Promise<Buffer[]>((resolve, reject) => {
      const headers = {
        'Content-Type': 'application/x-www-form-urlencoded',
        Authorization: String(authorization),
      };
      const request = httpRequest(`${url}${path}`, { method: 'POST', agent: false, headers }, (response) => {
        const received: Buffer[] = [];
        response.on('data', (chunk: Buffer) => {
          received.push(chunk);
          if (received.length < 3) return;
          resolve(received);
          request.destroy();
        });
      });
      request.once('error', reject);
      request.end(body);
    });
    expect(chunks.map(String)).toEqual(['t', 'y', 'p']);
    const none = await post(url, balanceDraft([['balance-name', 'none']]));
    expect([none.status, none.body]).toEqual([200, '[]']);
  });

  it('delays the response', async () => {
    const { url } = await withFault({ delaySeconds: 0.05 });
    const before = performance.now();
    expect((await post(url, invoice1())).status).toBe(200);
    expect(performance.now() - before).toBeGreaterThan(45);
  });

  it('in progress does not keep the simulator from closing', async () => {
    const started = Promise.withResolvers<void>();
    const { url, close } = await starts.simulator({
      fault: () => {
        started.resolve();
        return { delaySeconds: 3600 };
      },
    });
    const response = post(url, invoice1()).catch((error: unknown) => error);
    await started.promise;
    await close();
    expect(await response).toMatchObject({ code: 'ECONNRESET' });
  });
});

it('a port in use is an error', async () => {
  const { url } = await starts.simulator();
  await expect(starts.simulator({ port: Number(new URL(url).port) })).rejects.toMatchObject({
    code: 'EADDRINUSE',
  });
});
