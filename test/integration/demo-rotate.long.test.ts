import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { KeyStatus } from '../../src/observability/status/facts.ts';
import { statusSchema } from '../../src/observability/status/schema.ts';
import { Processes, type RunningDemo } from '../support/demo.ts';
import { until } from '../support/until.ts';

let processes: Processes;

async function keyOf({ adminUrl }: RunningDemo): Promise<KeyStatus | undefined> {
  const { keys } = statusSchema.parse(await (await fetch(`${adminUrl}/status.json`)).json());
  return keys.list.find((key) => key.login === 'acme' && key.kind === 'private_key');
}

/** Queries of acme get status 403 from now on. @returns ends that */
async function startFault({ gatewayAdminUrl }: RunningDemo): Promise<() => Promise<unknown>> {
  const url = `${gatewayAdminUrl}/faults`;
  const headers = { 'Content-Type': 'application/json' };
  await fetch(url, { method: 'POST', headers, body: JSON.stringify({ login: 'acme', fault: 'status-403' }) });
  return () => fetch(url, { method: 'DELETE' });
}

const statesOf = (key: KeyStatus | undefined): string =>
  (key?.versions ?? []).map(({ state }) => state).join(', ');

describe('with a running demo', () => {
  let demo: RunningDemo;
  beforeAll(async () => {
    processes = new Processes();
    demo = await processes.startDemo();
  });
  afterAll(() => processes.clear());

  it('shows a new key waiting and then in use, also if it is interrupted, while no query fails', async () => {
    const body = new URLSearchParams({ login: 'acme', client_orderid: 'invoice-1' });
    const url = `${demo.proxyUrl}/sandbox/gw/api/v4/status/1234`;
    expect((await fetch(url, { method: 'POST', body })).status).toBe(200);
    const before = await keyOf(demo);
    const argv = ['demo', 'rotate', '--after', '3600', '--login', 'acme'];
    const rotation = processes.spawn([...argv, '--gateway-admin-url', demo.gatewayAdminUrl]);
    await until(async () => statesOf(await keyOf(demo)) === 'waiting, in-use');
    const during = await keyOf(demo);
    expect(during?.versions[1]?.fingerprint).toBe(before?.versions[0]?.fingerprint);
    rotation.child.kill('SIGINT');
    const { code, out, err } = await rotation.finished;
    const after = await keyOf(demo);
    expect(statesOf(after)).toMatch(/^in-use, (rejected|replaced)$/);
    expect(after?.versions[0]?.fingerprint).toBe(during?.versions[0]?.fingerprint);
    expect([code, err]).toEqual([0, '']);
    const [old, current] = [before?.versions[0]?.version, after?.versions[0]?.version];
    const steps = out.split('\n').map((line) => line.replace(/^ *\d+ s {2}|(?<=^Queries: )\d+/, ''));
    expect(steps).toEqual([
      `Rotating the private_key of acme, with one order-status query per second. Watch it on ${demo.adminUrl}/.`,
      `The key directory has a new key, not read yet: version ${old} in use`,
      `Countersign has read it: version ${current} waiting, version ${old} in use`,
      expect.stringMatching(
        `^The gateway accepts it and no other: version ${current} in use, version ${old} (rejected|replaced)$`,
      ),
      'Queries: , failed: 0.',
      '',
    ]);
  }, 30_000);

  it('says so and exits with 1 if a query failed, and still ends the rotation', async () => {
    const queries = async () =>
      z.object({ total: z.number() }).parse(await (await fetch(`${demo.gatewayAdminUrl}/journal`)).json())
        .total;
    const before = await queries();
    const argv = ['demo', 'rotate', '--after', '3', '--gateway-admin-url', demo.gatewayAdminUrl];
    const { finished } = processes.spawn(argv);
    await until(async () => (await queries()) >= before + 2);
    const endFault = await startFault(demo);
    const failures = async () =>
      statusSchema.parse(await (await fetch(`${demo.adminUrl}/status.json`)).json()).failures;
    await until(async () => JSON.stringify(await failures()).includes('403'));
    await endFault();
    const { code, out, err } = await finished;
    expect([code, err]).toEqual([1, expect.stringMatching(/^(A query got status 403\.\n)+$/)]);
    expect(out).toMatch(/The gateway accepts it and no other: .*\nQueries: [3-5], failed: [1-3]\.\n$/);
  });

  it('changes nothing if the key is not in use before', async () => {
    const endFault = await startFault(demo);
    const before = await keyOf(demo);
    const argv = ['demo', 'rotate', '--after', '0', '--gateway-admin-url', demo.gatewayAdminUrl];
    expect(await processes.run(argv)).toEqual({
      code: 1,
      out: '',
      err: 'countersign demo rotate: a query of acme gets status 403 before the rotation: restart the demo\n',
    });
    await endFault();
    expect((await keyOf(demo))?.versions[0]?.version).toBe(before?.versions[0]?.version);
  });
});

it('rotates without a status page too: beyond loopback there is none; without a demo it says so', async () => {
  processes = new Processes();
  try {
    const argv = ['demo', 'rotate', '--after', '0', '--gateway-admin-url'];
    expect(await processes.run([...argv, 'http://127.0.0.1:1'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('no demo responds at http://127.0.0.1:1: start one with countersign demo'),
    });
    const demo = await processes.startDemo(['--host', '0.0.0.0', '--allow-anonymous']);
    const { code, out } = await processes.run([...argv, demo.gatewayAdminUrl, '--login', 'beta']);
    expect([code, out.split('\n').map((line) => line.replace(/^ *\d+ s {2}/, ''))]).toEqual([
      0,
      [
        'Rotating the private_key of beta, with one order-status query per second.',
        'The key directory has a new key, not read yet',
        'The gateway accepts it and no other',
        'Queries: 1, failed: 0.',
        '',
      ],
    ]);
    expect(await processes.run([...argv, demo.gatewayAdminUrl, '--login', 'gamma'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('no endpoint of the scenario leads to gamma\n'),
    });
  } finally {
    processes.clear();
  }
}, 60_000);
