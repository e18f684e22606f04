import { afterAll, beforeAll, describe } from '@jest/globals';
import { describeWhere } from '../requires.ts';
import { VaultAdmin } from './admin.ts';
import { type RunningVault, startDevServer, startStub } from './real-vault.ts';

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
