import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { KeyStatus } from '../../src/observability/status/facts.ts';
import { statusSchema } from '../../src/observability/status/schema.ts';
import { run } from '../support/cli.ts';
import { Processes, type RunningDemo } from '../support/demo.ts';
import { until } from '../support/until.ts';

let processes: Processes;

async function keyOf({ adminUrl }: RunningDemo, kind: KeyStatus['kind']): Promise<KeyStatus | undefined> {
  const { keys } = statusSchema.parse(await (await fetch(`${adminUrl}/status.json`)).json());
  return keys.list.find((key) => key.login === 'acme' && key.kind === kind);
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

/** Queries both keys of a login again and again. @returns ends it, and returns every status that there was */
function load({ proxyUrl }: RunningDemo): () => Promise<Set<number>> {
  const statuses = new Set<number>();
  const end = new AbortController();
  const api = `${proxyUrl}/sandbox/gw/api`;
  const forms: readonly [url: string, body: string][] = [
    [`${api}/v4/status/1234`, 'login=acme&client_orderid=invoice-1'],
    [`${api}/v2/get-balance/manager/acme`, ''],
  ];
  const clients = forms.map(async ([url, body]) => {
    while (!end.signal.aborted) {
      statuses.add((await fetch(url, { method: 'POST', body: new URLSearchParams(body) })).status);
      await wait(50);
    }
  });
  return async () => {
    end.abort();
    await Promise.all(clients);
    return statuses;
  };
}

describe('with a running demo', () => {
  let demo: RunningDemo;
  beforeAll(async () => {
    processes = new Processes();
    demo = await processes.startDemo();
  });
  afterAll(() => processes.clear());

  it('shows a new key of each kind waiting and then in use, also if it is interrupted, while no query fails', async () => {
    const endLoad = load(demo);
    await Promise.all((['private_key', 'control_key'] as const).map(rotatesAndShows));
    expect(await endLoad()).toEqual(new Set([200]));
  }, 30_000);

  async function rotatesAndShows(kind: KeyStatus['kind']): Promise<void> {
    await until(async () => (await keyOf(demo, kind)) !== undefined);
    const before = await keyOf(demo, kind);
    const argv = ['demo', 'rotate', '--kind', kind, '--after', '3600', '--login', 'acme'];
    const rotation = processes.spawn([...argv, '--ready-file', demo.readyFile]);
    await until(async () => statesOf(await keyOf(demo, kind)) === 'waiting, in-use');
    const during = await keyOf(demo, kind);
    expect(during?.versions[1]?.fingerprint).toBe(before?.versions[0]?.fingerprint);
    rotation.child.kill('SIGINT');
    const { code, out, err } = await rotation.finished;
    const after = await keyOf(demo, kind);
    expect(statesOf(after)).toMatch(/^in-use, (rejected|replaced)$/);
    expect(after?.versions[0]?.fingerprint).toBe(during?.versions[0]?.fingerprint);
    expect([code, err]).toEqual([0, '']);
    const [old, current] = [before?.versions[0]?.version, after?.versions[0]?.version];
    const steps = out.split('\n').map((line) => line.replace(/^ *\d+ s {2}|(?<=^Queries: )\d+/, ''));
    expect(steps).toEqual([
      expect.stringMatching(`^Rotating the ${kind} of acme, with one .* Watch it on ${demo.adminUrl}/\\.$`),
      `The key directory has a new key, not read yet: version ${old} in use`,
      `Countersign has read it: version ${current} waiting, version ${old} in use`,
      expect.stringMatching(
        `^The gateway accepts it and no other: version ${current} in use, version ${old} (rejected|replaced)$`,
      ),
      'Queries: , failed: 0.',
      '',
    ]);
  }

  it('leaves the rotation of a key to the last of two at the same time', async () => {
    const argv = ['demo', 'rotate', '--kind', 'control_key', '--after', '3600'];
    const first = processes.spawn(argv);
    const begins = async (states: string) => statesOf(await keyOf(demo, 'control_key')).startsWith(states);
    await until(() => begins('waiting, in-use'), 'the first new key', 30);
    const second = processes.spawn(argv);
    await until(() => begins('waiting, waiting, in-use'), 'the second', 30);
    first.child.kill('SIGINT');
    expect(await first.finished).toMatchObject({
      code: 1,
      err: 'countersign demo rotate: another rotation has replaced the new key: let that one end, then repeat this one\n',
    });
    second.child.kill('SIGINT');
    expect(await second.finished).toMatchObject({ code: 0, err: '' });
    expect(statesOf(await keyOf(demo, 'control_key'))).toMatch(/^in-use, /);
  }, 90_000);

  it('says so and exits with 1 if a query failed, and still ends the rotation', async () => {
    const queries = async () =>
      z.object({ total: z.number() }).parse(await (await fetch(`${demo.gatewayAdminUrl}/journal`)).json())
        .total;
    const before = await queries();
    const { finished } = processes.spawn(['demo', 'rotate', '--after', '3']);
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
    const [directory = ''] = readdirSync(processes.folder).filter((name) =>
      name.startsWith('countersign-keys-'),
    );
    const key = join(processes.folder, directory, 'sandbox', 'acme', 'private_key.pem');
    const before = readFileSync(key, 'utf8');
    expect(await processes.run(['demo', 'rotate', '--after', '0'])).toEqual({
      code: 1,
      out: '',
      err: 'countersign demo rotate: a query of acme gets status 403 before the rotation: choose another --login, or restart the demo\n',
    });
    expect(readFileSync(key, 'utf8')).toBe(before);
    await endFault();
  });
});

it('rotates without a status page too: beyond loopback there is none; without a demo it says so', async () => {
  processes = new Processes();
  try {
    const argv = ['demo', 'rotate', '--after', '0', '--login', 'beta', '--kind', 'control_key'];
    expect(await processes.run(argv)).toMatchObject({
      code: 1,
      err: 'countersign demo rotate: no demo is running: start one with countersign demo\n',
    });
    const demo = await processes.startDemo(['--host', '0.0.0.0', '--allow-anonymous']);
    const { code, out } = await processes.run(argv);
    expect([code, out.split('\n').map((line) => line.replace(/^ *\d+ s {2}/, ''))]).toEqual([
      0,
      [
        'Rotating the control_key of beta, with one manager-balance query per second.',
        'The key directory has a new key, not read yet',
        'The gateway accepts it and no other',
        'Queries: 1, failed: 0.',
        '',
      ],
    ]);
    const other = ['demo', 'rotate', '--login', 'gamma', '--ready-file', demo.readyFile];
    expect(await run(other)).toMatchObject({
      code: 2,
      err: expect.stringContaining('It has one for: acme, beta\n'),
    });
  } finally {
    processes.clear();
  }
}, 60_000);

it.each([
  [['--kind', 'rsa'], '--kind must be private_key or control_key'],
  [['--after', '3601'], '--after must be a whole number of seconds from 0 to 3600'],
])('rejects %j', async (argv, message) => {
  const { code, err } = await run(['demo', 'rotate', ...argv]);
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
});
