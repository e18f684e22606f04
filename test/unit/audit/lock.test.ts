import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, linkSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, Server, Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { lockFile } from '../../../src/audit/file.ts';
import { Folder } from '../../support/folder.ts';
import type { LockOrder, LockResult } from '../../support/locking-process.ts';

let folder: Folder;
let file: string;
let lock: string;
let releases: (() => Promise<void>)[];
let processes: ChildProcess[];

beforeEach(() => {
  folder = new Folder();
  file = folder.at('audit.jsonl');
  [lock, releases, processes] = [`${file}.lock`, [], []];
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const child of processes) child.kill('SIGKILL');
  await Promise.all(releases.map((release) => release()));
  folder.remove();
});

async function take(): Promise<() => Promise<void>> {
  const release = await lockFile(file);
  releases.push(release);
  return release;
}

const inUse = /^Another process writes to .*\.jsonl \(lock .*\)\. Stop it, or give/;

/** A socket in the lock on which nothing listens any more, as a process leaves it that was killed. */
async function leaveStale(of = lock): Promise<void> {
  const server = createServer();
  await once(server.listen(folder.at('s')), 'listening');
  mkdirSync(of);
  linkSync(folder.at('s'), join(of, 'killed'));
  server.close();
  await once(server, 'close');
}

/** Listens on a socket in the lock. */
async function listenInside(name: string): Promise<Server> {
  mkdirSync(lock);
  const server = createServer();
  await once(server.listen(join(lock, name)), 'listening');
  releases.push(async () => void server.close());
  return server;
}

describe('a lock', () => {
  it('is held until it is released, and leaves nothing', async () => {
    const release = await take();
    await expect(take()).rejects.toThrow(inUse);
    expect(readdirSync(folder.path)).toEqual(['audit.jsonl.lock']);
    await release();
    expect(readdirSync(folder.path)).toEqual([]);
    await expect(take()).resolves.toBeDefined();
  });

  it('that cannot be had leaves no server, since a file that was renamed is tried for each second', async () => {
    await take();
    const closed = jest.spyOn(Server.prototype, 'close');
    await expect(take()).rejects.toThrow(inUse);
    expect(closed).toHaveBeenCalledTimes(1);
  });

  it('ends with a process that is killed', async () => {
    const child = startProcess();
    expect(await order(child, Date.now())).toBe('locked');
    await expect(take()).rejects.toThrow(inUse);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(readdirSync(lock)).toHaveLength(1);
    await expect(take()).resolves.toBeDefined();
    expect(readdirSync(lock)).toHaveLength(1);
  });

  it('that a crash left goes to exactly one of several processes that start at once', async () => {
    const children = [startProcess(), startProcess(), startProcess()];
    for (let round = 0; round < 20; round += 1) {
      file = folder.at(`audit-${round}.jsonl`);
      await leaveStale(`${file}.lock`);
      const at = Date.now() + 20;
      const results = await Promise.all(children.map((child) => order(child, at)));
      const others = results.filter((result) => result !== 'locked');
      expect({ round, others }).toEqual({ round, others: Array(2).fill(expect.stringMatching(inUse)) });
    }
  }, 30_000);

  it('is held by a process that accepts no connections now, however many wait', async () => {
    mkdirSync(lock);
    const path = join(lock, 'hangs');
    const script = `require('net').createServer().listen({ path: ${JSON.stringify(path)}, backlog: 1 }, () => {
      process.send('listens');
      process.kill(process.pid, 'SIGSTOP');
    })`;
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    processes.push(child);
    await once(child, 'message');
    await wait(50);
    const waiting = Array.from({ length: 4 }, () => connect(path).on('error', () => {}));
    await expect(take()).rejects.toThrow(inUse);
    for (const socket of waiting) socket.destroy();
  });
});

function startProcess(): ChildProcess {
  const child = fork(new URL('../../support/locking-process.ts', import.meta.url), { execArgv: [] });
  processes.push(child);
  return child;
}

async function order(child: ChildProcess, at: number): Promise<LockResult> {
  const result = once(child, 'message');
  child.send({ file, at } satisfies LockOrder);
  return String((await result)[0]);
}

describe('a lock that is released while it is looked at', () => {
  /** Runs this when a socket is about to connect, and this when it has begun to. */
  function whileConnecting(before: () => void, after: () => void): void {
    const spy = jest.spyOn(Socket.prototype, 'connect');
    spy.mockImplementation(function (this: Socket, ...args: Parameters<Socket['connect']>) {
      spy.mockRestore();
      before();
      const socket = this.connect(...args);
      after();
      return socket;
    });
  }

  it('is free: its socket was removed', async () => {
    await listenInside('x');
    whileConnecting(
      () => rmSync(join(lock, 'x')),
      () => {},
    );
    await expect(take()).resolves.toBeDefined();
  });

  it('is free: its socket was closed', async () => {
    const server = await listenInside('x');
    whileConnecting(
      () => {},
      () => void server.close(),
    );
    await expect(take()).resolves.toBeDefined();
  });

  it('again and again is an error in the end, as one that is held', async () => {
    await listenInside('x');
    const hide = (): void =>
      whileConnecting(
        () => renameSync(join(lock, 'x'), join(lock, 'y')),
        () => {
          renameSync(join(lock, 'y'), join(lock, 'x'));
          hide();
        },
      );
    hide();
    await expect(take()).rejects.toThrow(inUse);
  });
});

describe('a lock that cannot be created is an error that says what to do', () => {
  const tidy = (): void => expect(readdirSync(folder.path).filter((name) => /lock\./.test(name))).toEqual([]);
  const failure = (code: string): Error => Object.assign(new Error(`raw text of ${code}`), { code });

  it('if its directory is missing', async () => {
    file = folder.at('missing/audit.jsonl');
    await expect(take()).rejects.toThrow(
      /^Cannot create .*missing\/audit\.jsonl\.lock \(ENOENT\)\. Make its directory writable, on a disk that has room\.$/,
    );
  });

  it('if its volume has no Unix sockets', async () => {
    jest.spyOn(Server.prototype, 'listen').mockImplementationOnce(function (this: Server) {
      process.nextTick(() => this.emit('error', failure('EOPNOTSUPP')));
      return this;
    });
    await expect(take()).rejects.toThrow(
      /^Cannot create a Unix socket .* \(EOPNOTSUPP\): its volume may not support them\. Name a file on another volume\.$/,
    );
    tidy();
  });

  it('if there is something else', async () => {
    writeFileSync(lock, 'something');
    await expect(take()).rejects.toThrow(
      /^Cannot use the lock .* \(ENOTDIR\)\. If no process writes to .*audit\.jsonl, remove the lock\.$/,
    );
    expect(existsSync(lock)).toBe(true);
    tidy();
  });

  it('if it cannot be connected to', async () => {
    await listenInside('x');
    jest.spyOn(Socket.prototype, 'connect').mockImplementationOnce(function (this: Socket) {
      process.nextTick(() => this.destroy(failure('EACCES')));
      return this;
    });
    await expect(take()).rejects.toThrow(/^Cannot use the lock .* \(EACCES\)\. If no process writes/);
    tidy();
  });

  it('if its path is too long for a socket', async () => {
    const longest = (bytes: number): void => {
      file = folder.at('x'.repeat(bytes - folder.at('/').length - '.lock'.length));
    };
    longest(89);
    await expect(take()).resolves.toBeDefined();
    longest(90);
    await expect(take()).rejects.toThrow(
      /\.lock is longer than 89 bytes, the limit for a lock\. Choose a shorter/,
    );
  });
});
