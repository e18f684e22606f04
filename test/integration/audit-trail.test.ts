import { openSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { LogDestination } from '../../src/observability/log-destination.ts';
import { type AuditFields, auditFilesIn, auditIn, recordsIn, verifyFiles } from '../support/audit.ts';
import { everything, tokenCredential } from '../support/config.ts';
import { closedPort } from '../support/faulty-gateway.ts';
import { paths, statusForm, transferForm, verdict } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import type { ProxyOptions } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();

interface Audited extends Edge {
  readonly directory: string;
}

async function start({ config, ...options }: ProxyOptions = {}): Promise<Audited> {
  const audit = auditIn(starts.folder());
  return { ...(await starts.edge({ config: { audit, ...config }, ...options })), directory: audit.directory };
}

/** All records of the trail but the first and the last, once the process has stopped. */
async function recordsOf({ stop, directory }: Pick<Audited, 'stop' | 'directory'>): Promise<AuditFields[]> {
  await stop();
  const files = auditFilesIn(directory).map((file) => readFileSync(file, 'utf8').split(/(?<=\n)/));
  expect(verifyFiles(files).defect).toBeUndefined();
  const records = recordsIn(directory);
  expect([records[0]?.['audit'], records.at(-1)?.['audit']]).toEqual(['start', 'stop']);
  return records.slice(1, -1);
}

const billing = { name: 'billing', credentials: [tokenCredential('token-of-billing')], allow: [everything] };
const asBilling = { Authorization: 'Bearer token-of-billing' };
const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/);

describe('a payment has', () => {
  it('an intent with everything that identifies its signature, and a result', async () => {
    const proxy = await start({ config: { callers: [billing] } });
    const response = await proxy.post(paths.transfer, transferForm, asBilling);
    const [sent] = proxy.gateway.requests;
    const authorization = String(sent?.headers['authorization']);
    const signed = (name: string) => new RegExp(`oauth_${name}="([^"]*)"`).exec(authorization)?.[1];
    const common = {
      request: response.headers['x-request-id'],
      caller: 'billing',
      credential: { kind: 'token', tokenHash: billing.credentials[0]?.tokenSha256.slice(0, 8) },
      decision: 'allowed',
      environment: 'sandbox',
      operation: 'transfer',
      login: 'acme',
    };
    expect(await recordsOf(proxy)).toEqual([
      {
        ...common,
        ...sealed('intent', 2),
        keyKind: 'private_key',
        keyVersion: expect.any(Number),
        keyFingerprint: expect.stringMatching(/^[0-9a-f]{64}$/),
        nonce: signed('nonce'),
        timestamp: Number(signed('timestamp')),
        clientOrderId: 'invoice-7',
      },
      {
        ...common,
        ...sealed('result', 3),
        outcome: 'answered',
        status: 200,
        gatewayStatus: 200,
        attempts: 1,
      },
    ]);
  });

  it('an intent on its way before the gateway receives it, and with required on the disk', async () => {
    const folder = starts.folder();
    const audit = { ...auditIn(folder), required: true };
    const proxy = await starts.edge({ config: { audit } });
    const seen: unknown[] = [];
    proxy.gateway.respond = (response, request) => {
      const nonce = /oauth_nonce="([^"]*)"/.exec(String(request.headers['authorization']))?.[1];
      seen.push(recordsIn(audit.directory).some((record) => record['nonce'] === nonce));
      response.end('OK');
    };
    await Promise.all([proxy.transfer(), proxy.balance(), proxy.status(), proxy.transfer()]);
    expect(seen).toEqual([true, true, true, true]);
  });

  it('no response of the gateway if a required record cannot be written: it is not sent', async () => {
    const { keyFile } = auditIn(starts.folder());
    const descriptor = openSync('/dev/full', 'w');
    const logDestination = new LogDestination({ descriptor, monotonic: () => performance.now() });
    const edge = await starts.edge({ config: { audit: { keyFile, required: true } }, logDestination });
    expect(verdict(await edge.transfer())).toBe('503 audit-unavailable not-sent not-sent');
    expect(edge.gateway.requests).toEqual([]);
  });

  it('one intent for each connection that is tried', async () => {
    const proxy = await start({ gateway: `http://127.0.0.1:${closedPort}`, random: () => 0 });
    expect((await proxy.transfer()).status).toBe(502);
    const records = await recordsOf(proxy);
    expect(records.map(({ audit, attempts }) => [audit, attempts])).toEqual([
      ['intent', undefined],
      ['intent', undefined],
      ['intent', undefined],
      ['result', 3],
    ]);
    expect(new Set(records.slice(0, 3).map(({ nonce }) => nonce)).size).toBe(3);
    expect(records.at(-1)).toMatchObject({ outcome: 'not-sent', reason: 'gateway-unreachable', status: 502 });
  });
});

const sealed = (audit: string, seq: number) => ({
  audit,
  seq,
  instance: expect.any(String),
  key: expect.stringMatching(/^[0-9a-f]{8}$/),
  time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
  prev: expect.stringMatching(/^[0-9a-f]{64}$/),
  mac: expect.stringMatching(/^[0-9a-f]{64}$/),
});

it('another configuration has a record with its digest', async () => {
  const proxy = await start();
  await proxy.reload({ audit: { directory: proxy.directory, keyFile: '/another' } });
  const { digest } = (await proxy.instanceStatus()).config;
  expect(await recordsOf(proxy)).toEqual([{ ...sealed('config', 2), config: digest }]);
});

it('a request that is not sent has a record', async () => {
  const limited = {
    name: 'limited',
    credentials: [tokenCredential('token-of-limited')],
    allow: [{ ...everything, logins: ['other'] }],
  };
  const proxy = await start({ config: { callers: [billing, limited] } });
  const post = (form: string, token: string) =>
    proxy.post(paths.transfer, form, { Authorization: `Bearer ${token}` });
  await proxy.transfer();
  await post(transferForm, 'wrong');
  await post(transferForm, 'token-of-limited');
  await post('a=%zz', 'token-of-billing');
  await proxy.send('nonsense\r\n\r\n');
  const route = { environment: 'sandbox', operation: 'transfer' };
  const records = await recordsOf(proxy);
  expect(records).toMatchObject([
    { reason: 'caller-unknown', status: 401, presented: 'none', peer: '127.0.0.1' },
    { reason: 'caller-unknown', status: 401, presented: 'token', tokenHash: '8810ad58' },
    { reason: 'not-allowed', status: 403, caller: 'limited', decision: 'denied', login: 'acme', ...route },
    { reason: 'malformed-form', status: 400, caller: 'billing', ...route },
    { reason: 'bad-request', status: 400, request: uuid },
  ]);
  for (const record of records) {
    expect(record).toMatchObject({ audit: 'rejected', outcome: 'not-sent' });
    expect(record).not.toHaveProperty('attempts');
  }
});

it('of many requests without known credentials, a part has records, and the number of the others is recorded', async () => {
  const proxy = await start({ config: { callers: [billing] } });
  for (let round = 0; round < 15; round += 1)
    await Promise.all(Array.from({ length: 10 }, () => proxy.post(paths.balance)));
  await proxy.post(paths.status, statusForm, asBilling);
  const records = await recordsOf(proxy);
  const rejected = records.filter(({ audit }) => audit === 'rejected').length;
  const counts = records.map(({ audit, count }) => (audit === 'omitted' ? Number(count) : 0));
  const omitted = counts.reduce((sum, count) => sum + count);
  expect(rejected).toBeGreaterThanOrEqual(100);
  expect([rejected + omitted, omitted > 0]).toEqual([150, true]);
  const ofBilling = records.filter(({ caller }) => caller === 'billing');
  expect(ofBilling.map(({ audit }) => audit)).toEqual(['intent', 'result']);
});

it('the newest record is a metric and, at the end, a log line', async () => {
  const proxy = await start();
  await proxy.transfer();
  await until(async () => (await proxy.metric('audit_sequence')) === 3);
  const mac = String(recordsIn(proxy.directory).at(-1)?.['mac']);
  expect(await proxy.metric('audit_head')).toBe(Number.parseInt(mac.slice(0, 12), 16));
  expect(await proxy.metric('audit_records_lost_total')).toBe(0);
  expect(await proxy.metric('audit_up')).toBe(1);
  const { directory, stop, logLines } = proxy;
  await recordsOf({ directory, stop });
  const stopped = recordsIn(directory).at(-1);
  expect(logLines('audit head')).toEqual([
    expect.objectContaining({ sequence: stopped?.['seq'], mac: stopped?.['mac'] }),
  ]);
});

it('a start that fails later closes the trail', async () => {
  const audit = auditIn(starts.folder());
  const { url } = await starts.recordingGateway();
  const admin = { port: Number(new URL(url).port) };
  await expect(starts.edge({ config: { audit, admin } })).rejects.toThrow('EADDRINUSE');
  expect(recordsIn(audit.directory).map(({ audit: kind }) => kind)).toEqual(['start', 'stop']);
});
