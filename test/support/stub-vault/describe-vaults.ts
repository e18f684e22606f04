import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe } from '@jest/globals';
import { freePort } from '../faulty-gateway.ts';
import { describeWhere } from '../requires.ts';
import { until } from '../until.ts';
import { VaultAdmin } from './admin.ts';
import { StubVault } from './server.ts';
import { rootToken } from './state.ts';

/** The program of a real server, which is its command line too. */
export const vaultProgram = process.env['VAULT_BIN'] ?? '';

/** Of a server that tests change freely; it runs from `beforeAll` on. */
export interface VaultAtHand {
  readonly isReal: boolean;
  admin: VaultAdmin;
}

/** Tests against a real server, if VAULT_BIN names its program. */
export const describeRealVault = (what: string, tests: (server: VaultAtHand) => void): void =>
  describeWhere(vaultProgram !== '', 'a real server (set VAULT_BIN)')(`${what}, against a real server`, () =>
    tests(running(true, () => startDevServer(vaultProgram))),
  );

/** Tests against the stub, and against a real server. */
export function describeVaults(what: string, tests: (server: VaultAtHand) => void): void {
  describe(`${what}, against the stub`, () => tests(running(false, startStub)));
  describeRealVault(what, tests);
}

function running(isReal: boolean, start: () => Promise<RunningVault>): VaultAtHand {
  const server = { isReal, admin: new VaultAdmin('', '') };
  let close = async (): Promise<void> => {};
  beforeAll(async () => ({ admin: server.admin, close } = await start()), 20_000);
  afterAll(() => close());
  return server;
}

/** A server that speaks Vault's protocol, with KV version 2 at `secret` and {@link rootToken}. */
interface RunningVault {
  readonly admin: VaultAdmin;
  readonly close: () => Promise<void>;
}

async function startStub(): Promise<RunningVault> {
  const stub = new StubVault();
  return { admin: new VaultAdmin(await stub.listen(), rootToken), close: () => stub.close() };
}

/** `vault server -dev` or `bao server -dev`: in memory, unsealed. */
async function startDevServer(program: string): Promise<RunningVault> {
  const port = await freePort();
  const listen = `-dev-listen-address=127.0.0.1:${port}`;
  const args = ['server', '-dev', '-dev-no-store-token', `-dev-root-token-id=${rootToken}`, listen];
  const server = spawn(program, args, { stdio: 'ignore' });
  const exited = once(server, 'exit');
  const admin = new VaultAdmin(`http://127.0.0.1:${port}`, rootToken);
  const isUp = () =>
    admin.send('GET', 'secret/config').then(
      ({ status }) => status === 200,
      () => false,
    );
  await until(isUp, `${program} serves`, 15);
  return {
    admin,
    close: async () => {
      server.kill('SIGTERM');
      await exited;
    },
  };
}
