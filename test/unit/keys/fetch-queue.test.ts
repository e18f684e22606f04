import { beforeEach, expect, it } from '@jest/globals';
import { FetchQueue } from '../../../src/keys/fetch-queue.ts';
import type { KeyReading, NoKeys } from '../../../src/keys/key-source.ts';
import { currentSpan, type Span, withSpan } from '../../../src/util/trace.ts';
import { refOf, ScriptedSource, settled } from './scripted-source.ts';

let now = 0;
let source: ScriptedSource;
let reads: FetchQueue<KeyReading | NoKeys>;
beforeEach(() => {
  now = 0;
  source = new ScriptedSource();
  source.paused = true;
  reads = new FetchQueue(
    (login) => source.read(login),
    () => now,
  );
});

const many = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => refOf(`${prefix}${index}`));

it('runs eight reads at once, and the others in order', async () => {
  const results = many('a', 20).map((login) => reads.fetch(login, 'foreground'));
  expect(source.started).toHaveLength(8);
  await source.release(1);
  expect(source.started).toHaveLength(9);
  while (source.running.length > 0) await source.release();
  await Promise.all(results);
  expect(source.started).toEqual(many('a', 20).map((login) => login.login));
  expect(source.mostRunning).toBe(8);
});

it('runs reads that a request waits for before refreshes', async () => {
  for (const login of [...many('busy', 8), ...many('refresh', 2)]) void reads.fetch(login, 'background');
  void reads.fetch(refOf('request'), 'foreground');
  await source.release(1);
  expect(source.started.at(-1)).toBe('request');
});

it('moves a queued refresh to the front when a request waits for it, and runs it once', async () => {
  for (const login of [...many('busy', 8), ...many('refresh', 2)]) void reads.fetch(login, 'background');
  const refresh = reads.fetch(refOf('refresh2'), 'background');
  const request = reads.fetch(refOf('refresh2'), 'foreground');
  await source.release(1);
  expect(source.started.at(-1)).toBe('refresh2');
  while (source.running.length > 0) await source.release();
  await Promise.all([request, refresh]);
  expect(source.started).toHaveLength(11);
});

it('a read of the same login waits without delaying the others', async () => {
  for (const login of many('busy', 7)) void reads.fetch(login, 'foreground');
  void reads.fetch(refOf('acme'), 'foreground');
  const again = reads.fetchFresh(refOf('acme'), 'foreground');
  void reads.fetch(refOf('other'), 'foreground');
  await source.release(1);
  expect(source.started.at(-1)).toBe('other');
  expect(source.running).toContain('sandbox/acme');
  while (source.running.length > 0) await source.release();
  await again;
  expect(source.started.filter((login) => login === 'acme')).toHaveLength(2);
  expect(source.overlapped).toBe(false);
});

it('rejects a request that waited 5 s for its read to start, when the next read ends', async () => {
  for (const login of many('busy', 8)) void reads.fetch(login, 'background');
  const early = reads.fetch(refOf('early'), 'foreground');
  now = 1;
  const late = reads.fetch(refOf('late'), 'foreground');
  const rejected = expect(early).rejects.toMatchObject({
    reason: 'key-source-unavailable',
    headers: { 'Retry-After': '5' },
    source: 'unknown',
    problem: 'timed out waiting for other key reads',
  });
  now = 5000;
  await source.release(1);
  await rejected;
  expect(source.started.at(-1)).toBe('late');
  await source.release();
  await expect(late).resolves.toBe('deleted');
});

it('a refresh has no time limit in the queue', async () => {
  for (const login of many('busy', 8)) void reads.fetch(login, 'background');
  const refresh = reads.fetch(refOf('refresh'), 'background');
  now = 3_600_000;
  await source.release();
  await source.release();
  await expect(refresh).resolves.toBe('deleted');
});

it('a failed read frees its slot and fails for all who joined it', async () => {
  source.down = true;
  const results = many('a', 9).map((login) => reads.fetch(login, 'foreground'));
  const failures = Promise.allSettled(results);
  await source.release();
  await source.release();
  expect(new Set((await failures).map((result) => result.status))).toEqual(new Set(['rejected']));
  await settled();
  expect(source.running).toEqual([]);
});

it('runs a queued read as a step of the request that queued it, whatever read ended before', async () => {
  const spanOf = (name: string): Span & { name: string } => ({
    name,
    begin: () => undefined,
    add() {},
    mark() {},
    fail() {},
    end() {},
  });
  const seen: [login: string, span: Span | undefined][] = [];
  const queue = new FetchQueue(
    (login) => {
      seen.push([login.login, currentSpan()]);
      return source.read(login);
    },
    () => now,
  );
  for (const login of many('a', 8)) void withSpan(spanOf('earlier'), () => queue.fetch(login, 'foreground'));
  const later = spanOf('later');
  void withSpan(later, () => queue.fetch(refOf('traced'), 'foreground'));
  void queue.fetch(refOf('not-traced'), 'foreground');
  await source.release(2);
  expect(seen.slice(8)).toEqual([
    ['traced', later],
    ['not-traced', undefined],
  ]);
});
