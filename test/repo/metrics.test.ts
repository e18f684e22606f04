import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { errorTable } from '../../src/errors.ts';
import { createPrometheus, type Prometheus } from '../../src/observability/prometheus.ts';
import type { RequestContext } from '../../src/request-context.ts';
import { samples } from '../support/exposition.ts';
import { reasons } from '../support/problem.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';
import { noReadings, routesOf } from '../support/routes.ts';

const operations = [
  'manager-balance',
  'order-status',
  'order-status-group',
  'pan-eligibility-send',
  'transfer',
];

function create(): Prometheus {
  return createPrometheus({
    version: '0.2.0',
    routes: routesOf({ sandbox: 50, production: 500 }),
  });
}

function request(fields: Partial<RequestContext>): RequestContext {
  return {
    id: randomUUID(),
    startedAt: 0,
    outcome: 'answered',
    attempts: 1,
    durations: { total: 0.1 },
    ...fields,
  };
}

itWith('promtool')('promtool accepts the page, before and after a request', async () => {
  const metrics = create();
  const check = async () => promtool(['check', 'metrics'], (await metrics.page(false, noReadings)).body);
  expect(await check()).toEqual({ status: 0, output: '' });
  metrics.requestFinished(request({ environment: 'sandbox', operation: 'transfer', status: 200 }));
  metrics.gatewayResponded({
    environment: 'sandbox',
    operation: 'transfer',
    status: 200,
    seconds: 1,
    clockSkew: 1,
  });
  metrics.keySourceUp(true);
  metrics.tokenExpiryChanged(1_800_000_000, 3600);
  expect(await check()).toEqual({ status: 0, output: '' });
});

it('ten thousand random callers, environments, operations and logins add only none and other', async () => {
  const metrics = create();
  const own = async () =>
    [...samples((await metrics.page(false, noReadings)).body).keys()].filter((name) =>
      name.startsWith('countersign_'),
    );
  const random = () => randomUUID();
  const recordUnknownNames = () => {
    metrics.requestFinished(
      request({
        caller: random(),
        environment: random(),
        operation: random(),
        login: random(),
        status: 404,
      }),
    );
    metrics.gatewayResponded({ environment: random(), operation: random(), status: 200, seconds: 0.1 });
    metrics.authorizationDecided(random(), 'denied');
    metrics.keyLookup(random(), 'missing');
    metrics.keyFetched(random(), 0.1);
    metrics.keyProblem(random(), { environment: random(), login: random() });
    metrics.currentKeyChanged({ environment: random(), login: random() }, 'control_key', 1, 2);
    metrics.keyAccepted({ environment: random(), login: random() }, 'control_key', 1);
  };
  recordUnknownNames();
  const afterOne = await own();
  for (let at = 0; at < 10_000; at += 1) recordUnknownNames();
  expect(await own()).toEqual(afterOne);
});

it('two environments with every operation and every error reason stay below 3000 series', async () => {
  const metrics = create();
  for (const environment of ['sandbox', 'production']) {
    for (const operation of operations) {
      for (const reason of reasons) {
        const { status, outcome } = errorTable[reason];
        const known = { environment, operation, caller: 'billing', status, outcome };
        metrics.requestFinished(request({ ...known, reason }));
      }
    }
  }
  expect(samples((await metrics.page(false, noReadings)).body).size).toBeLessThan(3000);
});
