import { beforeEach, expect, it } from '@jest/globals';
import { FetchQueue } from '../../../src/keys/fetch-queue.ts';
import type { KeyRing } from '../../../src/keys/key-source.ts';
import { addressOf, ScriptedSource, settled } from './scripted-source.ts';

let now = 0;
let source: ScriptedSource;
let reads: FetchQueue<KeyRing | undefined>;
beforeEach(() => {
  now = 0;
  source = new ScriptedSource();
  source.paused = true;
  reads = new FetchQueue(
    (address) => source.read(address),
    () => now,
  );
});

const many = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => addressOf(`${prefix}${index}`));

it('runs eight reads at once, and the others in order', async () => {
  const results = many('a', 20).map((address) => reads.fetch(address, 'foreground'));
  expect(source.begun).toHaveLength(8);
  await source.letGo(1);
  expect(source.begun).toHaveLength(9);
  while (source.running.length > 0) await source.letGo();
  await Promise.all(results);
  expect(source.begun).toEqual(many('a', 20).map((address) => address.login));
  expect(source.mostRunning).toBe(8);
});

it('runs reads that a request waits for before refreshes', async () => {
  for (const address of [...many('busy', 8), ...many('refresh', 2)]) void reads.fetch(address, 'background');
  void reads.fetch(addressOf('request'), 'foreground');
  await source.letGo(1);
  expect(source.begun.at(-1)).toBe('request');
});

it('moves a queued refresh to the front when a request waits for it, and runs it once', async () => {
  for (const address of [...many('busy', 8), ...many('refresh', 3)]) void reads.fetch(address, 'background');
  const request = reads.fetch(addressOf('refresh2'), 'foreground');
  await source.letGo(1);
  expect(source.begun.at(-1)).toBe('refresh2');
  while (source.running.length > 0) await source.letGo();
  await request;
  expect(source.begun).toHaveLength(11);
});

it('a read of the same login waits without delaying the others', async () => {
  for (const address of many('busy', 7)) void reads.fetch(address, 'foreground');
  void reads.fetch(addressOf('acme'), 'foreground');
  const again = reads.fetchFresh(addressOf('acme'), 'foreground');
  void reads.fetch(addressOf('other'), 'foreground');
  await source.letGo(1);
  expect(source.begun.at(-1)).toBe('other');
  expect(source.running).toContain('sandbox/acme');
  while (source.running.length > 0) await source.letGo();
  await again;
  expect(source.begun.filter((login) => login === 'acme')).toHaveLength(2);
  expect(source.overlapped).toBe(false);
});

it('rejects a request that waited 5 s for its read to start, when the next read ends', async () => {
  for (const address of many('busy', 8)) void reads.fetch(address, 'background');
  const early = reads.fetch(addressOf('early'), 'foreground');
  now = 1;
  const late = reads.fetch(addressOf('late'), 'foreground');
  const refused = expect(early).rejects.toMatchObject({
    reason: 'key-source-unavailable',
    headers: { 'Retry-After': '5' },
  });
  now = 5000;
  await source.letGo(1);
  await refused;
  expect(source.begun.at(-1)).toBe('late');
  await source.letGo();
  await expect(late).resolves.toBeUndefined();
});

it('a refresh has no time limit in the queue', async () => {
  for (const address of many('busy', 8)) void reads.fetch(address, 'background');
  const refresh = reads.fetch(addressOf('refresh'), 'background');
  now = 3_600_000;
  await source.letGo();
  await source.letGo();
  await expect(refresh).resolves.toBeUndefined();
});

it('a failed read frees its slot and fails for all who joined it', async () => {
  source.down = true;
  const results = many('a', 9).map((address) => reads.fetch(address, 'foreground'));
  const failures = Promise.allSettled(results);
  await source.letGo();
  await source.letGo();
  expect(new Set((await failures).map((result) => result.status))).toEqual(new Set(['rejected']));
  await settled();
  expect(source.running).toEqual([]);
});
