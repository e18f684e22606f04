import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../faulty-gateway.ts';
import { StubVault } from './server.ts';
import { rootToken } from './state.ts';

/** A server that speaks Vault's protocol, with a root token. */
export interface RunningVault {
  readonly address: string;
  readonly rootToken: string;
  close(): Promise<void>;
}

/** What a machine lacks where {@link vaultTargets} has no real server. */
export const noRealServer = 'a real server (set VAULT_BIN, or VAULT_TEST_ADDR and VAULT_TEST_TOKEN)';

interface VaultTarget {
  readonly name: string;
  /** Undefined if environment variables name no such server. */
  readonly open: (() => Promise<RunningVault>) | undefined;
}

/** The stub, and a real server if VAULT_BIN, or VAULT_TEST_ADDR and VAULT_TEST_TOKEN, name one. */
export function vaultTargets(env: NodeJS.ProcessEnv): readonly VaultTarget[] {
  return [{ name: 'the stub', open: openStub }, realTarget(env)];
}

function realTarget(env: NodeJS.ProcessEnv): VaultTarget {
  const { VAULT_BIN: program, VAULT_TEST_ADDR: address, VAULT_TEST_TOKEN: token } = env;
  if (address !== undefined && token !== undefined) {
    return {
      name: 'a real server',
      open: async () => ({ address, rootToken: token, close: async () => {} }),
    };
  }
  if (program !== undefined) return { name: 'a real server', open: () => startDevServer(program) };
  return { name: 'a real server', open: undefined };
}

/** What a machine lacks where {@link devServer} has no program. */
export const noDevServer = 'a real server with its command line (set VAULT_BIN)';

interface DevServer {
  /** The program, which is both server and command line; undefined if VAULT_BIN is not set. */
  readonly program: string | undefined;
  open(): Promise<RunningVault>;
}

/** A dedicated real server with its command line, if VAULT_BIN is set: for tests that change fixed paths. */
export function devServer({ VAULT_BIN: program }: NodeJS.ProcessEnv): DevServer {
  return {
    program,
    open: () => startDevServer(program ?? 'vault'),
  };
}

async function openStub(): Promise<RunningVault> {
  const stub = new StubVault();
  return { address: await stub.listen(), rootToken, close: () => stub.close() };
}

/** `vault server -dev` or `bao server -dev`: in memory, unsealed, KV version 2 at `secret`. */
async function startDevServer(program: string): Promise<RunningVault> {
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  const listen = `-dev-listen-address=127.0.0.1:${port}`;
  const args = ['server', '-dev', '-dev-no-store-token', `-dev-root-token-id=${rootToken}`, listen];
  const server = spawn(program, args, { stdio: 'ignore' });
  await unsealed(address, server);
  return { address, rootToken, close: () => end(server) };
}

async function unsealed(address: string, server: ChildProcess): Promise<void> {
  const giveUpAt = Date.now() + 15_000;
  while (Date.now() < giveUpAt && server.exitCode === null) {
    const response = await fetch(`${address}/v1/sys/health`).catch(() => undefined);
    if (response?.status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  server.kill('SIGKILL');
  throw new Error('the Vault program named by VAULT_BIN did not start');
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return;
  const exited = once(server, 'exit');
  server.kill('SIGTERM');
  await exited;
}
