import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../faulty-gateway.ts';
import { until } from '../until.ts';
import { VaultAdmin } from './admin.ts';
import { StubVault } from './server.ts';
import { rootToken } from './state.ts';

/** A server that speaks Vault's protocol, with KV version 2 at `secret` and {@link rootToken}. */
export interface RunningVault {
  readonly admin: VaultAdmin;
  readonly close: () => Promise<void>;
}

export async function startStub(): Promise<RunningVault> {
  const stub = new StubVault();
  return { admin: new VaultAdmin(await stub.listen(), rootToken), close: () => stub.close() };
}

/** `vault server -dev` or `bao server -dev`: in memory, unsealed. */
export async function startDevServer(program: string): Promise<RunningVault> {
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
