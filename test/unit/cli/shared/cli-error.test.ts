import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import {
  describeListenError,
  operatorMessage,
  systemErrorMessage,
  unexpectedErrorMessage,
} from '../../../../src/cli/shared/cli-error.ts';
import { ProxyError } from '../../../../src/errors.ts';

const folder = mkdtempSync(join(tmpdir(), 'countersign-errors-'));
afterAll(() => rmSync(folder, { recursive: true }));

const errorOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

function listenError(port: number, host: string): Promise<unknown> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', resolve).listen(port, host, () => server.close(() => resolve(undefined)));
  });
}

it('a missing file, a directory and a file in place of a directory are named with what to do', async () => {
  const missing = join(folder, 'missing');
  expect(systemErrorMessage(await errorOf(readFile(missing)))).toBe(
    `${missing} does not exist. Check the path.`,
  );
  expect(systemErrorMessage(await errorOf(readdir(missing)))).toBe(
    `${missing} does not exist. Check the path.`,
  );
  expect(systemErrorMessage(await errorOf(mkdir(folder)))).toBe(
    `${folder} cannot be read or written (EEXIST).`,
  );
});

it('a port in use and a foreign address are named with what to do', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => {
    other.listen(0, '127.0.0.1', resolve);
  });
  const address = other.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const inUse = await listenError(port, '127.0.0.1');
  const sentence = `127.0.0.1:${port} is in use.`;
  expect(systemErrorMessage(inUse)).toBe(`${sentence} Stop the other process, or choose another port.`);
  const options = new Map([
    [port, '--port'],
    [port + 1, '--admin-port'],
  ]);
  expect(describeListenError(inUse, options)).toBe(`${sentence} Choose another port with --port.`);
  expect(describeListenError(inUse, new Map())).toBe(systemErrorMessage(inUse));
  const foreign = await listenError(port, '192.0.2.1');
  expect(describeListenError(foreign, options)).toBe(systemErrorMessage(foreign));
  expect(systemErrorMessage(foreign)).toBe(
    `192.0.2.1:${port} is not an address of this machine. Choose another host.`,
  );
  other.close();
});

it('an operator sees the cause of an error that a caller does not', () => {
  const cause = new Error('Vault is sealed');
  expect(operatorMessage(new ProxyError('key-source-unavailable', 'try again', { cause }))).toBe(
    'Vault is sealed',
  );
  expect(operatorMessage(new ProxyError('key-missing', 'the login has no key'))).toBe('the login has no key');
  expect(operatorMessage(cause)).toBe('Vault is sealed');
});

it.each([
  new Error('x'),
  'x',
  undefined,
  Object.assign(new Error('x'), { code: 'ECONNREFUSED', syscall: 'connect' }),
])('another error is left as it is: %p', (error) => {
  expect(systemErrorMessage(error)).toBeUndefined();
});

it('a bug is a sentence with its place, without the message, which may hold data', () => {
  const text = unexpectedErrorMessage(new TypeError('card 4111111111111111'));
  expect(text).toMatch(/^Internal error \(TypeError at .*cli-error\.test\.ts:\d+:\d+\)?\)\. This is a bug /);
  expect(text).not.toContain('4111');
  expect(unexpectedErrorMessage('4111')).toMatch(/^Internal error \(error\)\. /);
  const named = Object.assign(new Error('x'), { name: 'card 4111' });
  expect(unexpectedErrorMessage(named)).toMatch(/^Internal error \(error at /);
});
