import { expect, it } from '@jest/globals';
import { type ConfigInput, everything, tokenCredential } from '../support/config.ts';
import { paths, transferForm } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { jwtCaller } from '../support/jwt.ts';
import { issuerKey, startOidcServer } from '../support/oidc-server.ts';
import { formRequest, type RawConnection } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const { transfer } = paths;
const starts = harness();

const smallest = { port: 0, maxBufferedBytes: 1_048_576, timeouts: { shutdownDelay: '0s', body: '60s' } };
const modest = { name: 'modest', credentials: [{ anonymous: true as const }], allow: [everything] };
const greedy = { name: 'greedy', credentials: [tokenCredential('greedy')], allow: [everything] };

/** The results of 20 transfers of `modest` with a form of 3 KB, each as often as it occurs. */
async function paysAsModest(edge: Edge): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (let count = 0; count < 20; count += 1) {
    const { status, headers } = await edge.post(transfer, `client_orderid=${'x'.repeat(3_000)}`);
    const result = `${status} ${String(headers['countersign-outcome'])}`;
    counts[result] = (counts[result] ?? 0) + 1;
  }
  return counts;
}

/** 200 connections of `greedy` with a form of 2 KB without its last byte: together more than the smallest budget. */
async function slowForms(edge: Edge): Promise<RawConnection[]> {
  const form = formRequest(transfer, `client_orderid=${'x'.repeat(2_000)}`, [
    'Authorization: Bearer greedy',
  ]).slice(0, -1);
  const connections = await Promise.all(Array.from({ length: 200 }, () => edge.connect()));
  for (const connection of connections) connection.send(form);
  return connections;
}

const paid = { '200 answered': 20 };

it('a caller with slow forms holds its own slots only: what is above its limit is rejected before it is read', async () => {
  const callers = [{ ...greedy, maxInFlight: 2 }, modest];
  const edge = await starts.edge({
    config: { proxy: smallest, callers },
  });
  edge.gateway.respond = (response) => response.end('paid');
  const slow = await slowForms(edge);
  await until(async () => (await edge.counted('requests_total', { reason: 'caller-limit' })) === 198);
  expect(await paysAsModest(edge)).toEqual(paid);
  for (const connection of slow) connection.send('x');
  const responses = await Promise.all(slow.map((connection) => connection.response()));
  expect(responses.filter(({ status }) => status === 200)).toHaveLength(2);
  expect(responses.filter(({ status }) => status === 429)).toHaveLength(198);
});

it('a caller without a limit leaves memory for the others', async () => {
  const edge = await starts.edge({ config: { proxy: smallest, callers: [greedy, modest] } });
  edge.gateway.respond = (response) => response.end('paid');
  const slow = await slowForms(edge);
  await until(async () => (await edge.counted('requests_total', { reason: 'overloaded' })) >= 150);
  expect(await paysAsModest(edge)).toEqual(paid);
  for (const connection of slow) connection.reset();
});

it('clients whose issuer is slow hold no memory of the callers, and only 100 of them wait', async () => {
  const issuer = starts.closing(await startOidcServer({ keys: [issuerKey('first')] }));
  const config: Partial<ConfigInput> = {
    proxy: smallest,
    jwtIssuers: { idp: { issuer: issuer.url, audience: 'countersign' } },
    callers: [jwtCaller('billing', { subject: 'billing' }), modest],
  };
  const edge = await starts.edge({ config });
  edge.gateway.respond = (response) => response.end('paid');
  await until(() => issuer.fetches() === 1);
  issuer.rotate(issuerKey('unknown'));
  const token = await issuer.sign({ sub: 'billing' });
  const waits = Promise.withResolvers<void>();
  const { respond } = issuer;
  issuer.respond = (request, response) => void waits.promise.then(() => respond(request, response));
  const unknown = formRequest(transfer, transferForm, [`Authorization: Bearer ${token}`]);
  const connections = await Promise.all(Array.from({ length: 130 }, () => edge.connect()));
  for (const connection of connections)
    connection.send(unknown + formRequest(transfer, `client_orderid=${'x'.repeat(10_000)}`));
  await until(async () => (await edge.counted('requests_total', { reason: 'issuer-unavailable' })) === 30);
  expect(await paysAsModest(edge)).toEqual(paid);
  waits.resolve();
  const responses = await Promise.all(connections.map((connection) => connection.response()));
  expect(responses.filter(({ status }) => status === 200)).toHaveLength(100);
  expect(responses.filter(({ status }) => status === 503)).toHaveLength(30);
});
