import { openSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { Reason } from '../../src/errors.ts';
import { LogDestination } from '../../src/observability/log-destination.ts';
import { auditIn } from '../support/audit.ts';
import { everything } from '../support/config.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { jwtConfig } from '../support/jwt.ts';
import { startOidcServer } from '../support/oidc-server.ts';
import { expectProblem, promised, reasons } from '../support/problem.ts';
import { formRequest } from '../support/raw-http.ts';
import type { RawResponse } from '../support/response-reader.ts';
import { type ProxyOptions, testControlKey } from '../support/service.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const { balance, status, transfer } = paths;

const starts = harness();
let edge: Edge | undefined;

async function start(options: Partial<ProxyOptions> = {}): Promise<Edge> {
  edge = await starts.edge(options);
  return edge;
}

async function send(request: string, options: Partial<ProxyOptions> = {}): Promise<RawResponse> {
  return (await start(options)).send(request);
}

const paying = formRequest(transfer, 'client_orderid=1');
const hasty = { timeouts: { connect: '200ms', request: '200ms' } };
const strangers = { callers: [{ name: 'x', credentials: [{ tokenSha256: 'a'.repeat(64) }] }] };
const denied = { callers: [{ name: 'x', credentials: [{ anonymous: true as const }] }] };

/** While another request is at the gateway. */
async function sendBesideAnother(options: Partial<ProxyOptions>): Promise<RawResponse> {
  const { gateway, send: sendMore } = await start(options);
  const arrived = new Promise<() => void>((resolve) => {
    gateway.respond = (response) => resolve(() => response.end());
  });
  const first = sendMore(formRequest(balance));
  const release = await arrived;
  const second = await sendMore(formRequest(balance));
  release();
  expect((await first).status).toBe(200);
  return second;
}

/** After another payment with the order ID 1. */
async function sendAfterAnother(form: string): Promise<RawResponse> {
  const { gateway, send: sendMore } = await start({ config: { payments: { once: { store: 'memory' } } } });
  expect((await sendMore(paying)).status).toBe(200);
  gateway.requests.length = 0;
  return sendMore(formRequest(transfer, form));
}

const defect = 'no random bytes';

/** One request for each reason of the table. */
const ways: Record<Reason, () => Promise<RawResponse>> = {
  'method-not-allowed': () => send('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
  'unsupported-media-type': () => send(formRequest(balance, '{}', ['Content-Type: application/json'])),
  'too-large': () => send(formRequest(balance, 'a'.repeat(65_537))),
  'malformed-form': () => send(formRequest(balance, 'a=%zz')),
  'query-not-allowed': () => send(formRequest(`${balance}?a=b`)),
  'reserved-parameter': () => send(formRequest(balance, 'oauth_nonce=x')),
  'parameter-invalid': () => send(formRequest(status, 'login=acme')),
  'login-missing': () => send(formRequest('/sandbox/gw/api/v4/transfer/1')),
  'login-conflict': () => send(formRequest(balance, 'login=beta')),
  'bad-request': () => send('not HTTP\r\n\r\n'),
  'head-too-large': () => send(formRequest(balance, '', [`X-Long: ${'x'.repeat(20_000)}`])),
  'request-timeout': () =>
    send(formRequest(balance, 'a', ['Content-Length: 2']), {
      config: { proxy: { port: 0, timeouts: { body: '200ms' } } },
    }),
  'caller-gone': async () => {
    const connection = await (await start()).connect();
    return connection
      .send(formRequest(balance, 'a', ['Content-Length: 2']))
      .finish()
      .response();
  },
  'caller-unknown': () => send(formRequest(balance), { config: strangers }),
  'issuer-unavailable': async () => {
    const issuer = starts.closing(await startOidcServer());
    issuer.fail();
    const token = await issuer.sign();
    return send(formRequest(balance, '', [`Authorization: Bearer ${token}`]), { config: jwtConfig(issuer) });
  },
  'caller-limit': async () => {
    const callers = [
      { name: 'x', maxInFlight: 1, credentials: [{ anonymous: true as const }], allow: [everything] },
    ];
    return sendBesideAnother({ config: { callers } });
  },
  'not-allowed': () => send(formRequest(balance), { config: denied }),
  'web-page': () => send(formRequest(balance, '', ['Origin: null'])),
  'unknown-host': () => send(formRequest(balance).replace('countersign.test', 'rebound.example')),
  'unknown-route': () => send(formRequest('/nowhere')),
  pipelined: async () => {
    const connection = await (await start()).connect();
    connection.send(formRequest(balance) + formRequest(balance));
    expect((await connection.response()).status).toBe(200);
    return connection.response();
  },
  overloaded: () => sendBesideAnother({ sandbox: { maxInFlight: 1 } }),
  'shutting-down': async () => {
    const { connect, readiness, stop } = await start({
      config: { proxy: { port: 0, timeouts: { shutdown: '100ms' } } },
    });
    const connection = await connect();
    connection.send(formRequest(balance, '', ['Content-Length: 10']));
    // When a later connection has its response, this one's bytes have been read.
    await readiness();
    const stopped = stop();
    const response = await connection.response();
    connection.close();
    await stopped;
    return response;
  },
  'key-source-unavailable': async () => {
    const { keysFolder, send: sendNow } = await start();
    rmSync(keysFolder, { recursive: true });
    writeFileSync(keysFolder, 'a file where the folder was');
    return sendNow(formRequest(balance));
  },
  'signing-unavailable': async () => {
    const vault = starts.closing(new StubVault());
    const admin = new VaultAdmin(await vault.listen(), rootToken);
    await admin.enable('mounts', 'transit', { type: 'transit' });
    await admin.request('POST', 'transit/keys/acme', { type: 'rsa-2048' });
    vault.put('gateway/sandbox/acme', { transit_key: 'acme:1' });
    vault.fail({ kind: 'status', status: 503 }, /^transit\/sign/);
    const keys = vaultKeys(vault.address, { transit: { mounts: { sandbox: 'transit' } } });
    return send(paying, { config: { keys } });
  },
  'audit-unavailable': async () => {
    const descriptor = openSync('/dev/full', 'w');
    const logDestination = new LogDestination({ descriptor, monotonic: () => performance.now() });
    const { keyFile } = auditIn(starts.folder());
    return send(formRequest(balance), { config: { audit: { keyFile, required: true } }, logDestination });
  },
  'claims-unavailable': () => {
    const keyFile = starts.folder().file('once.key', 'k'.repeat(32));
    return send(paying, { config: { payments: { once: { store: 'redis://127.0.0.1:9', keyFile } } } });
  },
  'duplicate-payment': () => sendAfterAnother('client_orderid=1'),
  'order-id-reused': () => sendAfterAnother('client_orderid=1&amount=2'),
  'key-missing': () =>
    send(formRequest(status, statusForm), { keys: { acme: { controlKey: testControlKey } } }),
  'key-unusable': () => send(formRequest(status, statusForm), { keys: { acme: { privateKey: 'no PEM' } } }),
  'gateway-unreachable': async () => {
    const { gateway, send: sendNow } = await start();
    await gateway.close();
    return sendNow(paying);
  },
  'gateway-timeout': async () => {
    const { gateway, send: sendNow } = await start({ sandbox: hasty });
    gateway.respond = () => {};
    return sendNow(paying);
  },
  'gateway-reset': async () => {
    const { gateway, send: sendNow } = await start();
    gateway.respond = (response) => response.socket?.destroy();
    return sendNow(paying);
  },
  'gateway-reply-invalid': async () => {
    const { gateway, send: sendNow } = await start();
    gateway.respond = (response) => response.socket?.end('not HTTP\r\n\r\n');
    return sendNow(paying);
  },
  internal: () =>
    send(paying, {
      nonce: () => {
        throw new Error(defect);
      },
    }),
};

describe('every reason of the error table has its problem response', () => {
  it.each(reasons)('%s', async (reason) => {
    const response = await ways[reason]();
    const problem = expectProblem(response, reason);
    expect(JSON.stringify([problem, response.headers])).not.toContain(defect);
    expect(response.headers['retry-after'] !== undefined).toBe([429, 503].includes(response.status));
    const lines = await edge?.requestLines(1);
    expect(lines).toContainEqual(
      expect.objectContaining({ requestId: problem.requestId, reason, status: promised[reason][0] }),
    );
    if (promised[reason][1] === 'not-sent' && !/^(overloaded|caller-limit|pipelined)$/.test(reason)) {
      expect(edge?.gateway.requests).toHaveLength(0);
    }
  });
});
