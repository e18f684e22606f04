import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { expect } from '@jest/globals';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { itWhere } from '../support/requires.ts';

const starts = harness();
const tasks = '/proc/self/task';
const onLinux = itWhere(existsSync(tasks), `there is no ${tasks}`);

/** Names of the threads of a process. */
function threads(pid: number): string[] {
  const folder = tasks.replace('self', String(pid));
  return readdirSync(folder).map((id) => readFileSync(`${folder}/${id}/comm`, 'utf8').trim());
}

onLinux.each([
  [
    'a thread for each core, 2 to 8, and three more',
    {},
    Math.min(8, Math.max(2, availableParallelism())) + 3,
  ],
  ["the operator's number of threads", { UV_THREADPOOL_SIZE: '7' }, 7],
])('the pool that signs has %s', async (_size, env, size) => {
  const gateway = await starts.gateway([always(httpResponse('200 OK', 'x'))]);
  const proxy = await starts.process({ gateway: gateway.url, env });
  const statuses = await Promise.all(Array.from({ length: 20 }, () => proxy.status()));
  expect(statuses.map(({ status }) => status)).toEqual(Array(20).fill(200));
  const pool = threads(proxy.child.pid ?? 0).filter((name) => name === 'libuv-worker');
  expect(pool).toHaveLength(size);
});
