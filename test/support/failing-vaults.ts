import { startRealVault } from './real-vault-server.ts';
import { VaultAdmin } from './stub-vault/admin.ts';
import type { Ca } from './stub-vault/certificates.ts';
import { StubVault } from './stub-vault/server.ts';
import { rootToken } from './stub-vault/state.ts';
import type { KeyServer } from './test-cluster.ts';

/** A failure, which begins at once, and is over when its end resolves. */
export interface Failure {
  readonly begin: () => Promise<unknown>;
  readonly end: () => Promise<unknown>;
}

/** A server that speaks Vault's protocol over TLS and can fail on demand. */
export interface FailingVault extends KeyServer {
  /** `hung`: it accepts requests and does not respond. `rate-limited`: secrets and signatures only. */
  readonly failures: Readonly<Record<'killed' | 'hung' | 'sealed' | 'rate-limited', Failure>>;
  /** Number of reads of secrets since its last start; `undefined` if unknown. */
  reads(): Promise<number | undefined>;
  close(): Promise<void>;
}

/** The stub. */
export async function startFailingStub(ca: Ca): Promise<FailingVault> {
  const stub = new StubVault({ tls: ca.issue('vault') });
  const address = await stub.listen();
  const { port } = stub;
  const limited = { kind: 'status', status: 429, errors: ['rate limit quota exceeded'] } as const;
  const end = async () => stub.heal();
  return {
    address,
    caFile: ca.file,
    admin: new VaultAdmin(address, rootToken, ca.cert),
    failures: {
      killed: { begin: () => stub.close(), end: () => stub.listen(port) },
      hung: { begin: async () => stub.fail({ kind: 'black-hole' }), end },
      sealed: { begin: async () => void (stub.sealed = true), end },
      'rate-limited': { begin: async () => stub.fail(limited, /^(secret\/data|transit\/sign)/), end },
    },
    reads: async () => stub.count(/^GET secret\/data/),
    close: () => stub.close(),
  };
}

/** The stub, and a real server if VAULT_BIN names its program. */
export const failingVaults = ((program?: string) => {
  const stub = { server: 'the stub', start: startFailingStub };
  if (program !== undefined)
    return [stub, { server: 'a real server', start: (ca: Ca) => startRealVault(program, ca) }];
  process.stderr.write('skipped: outages of a real server (set VAULT_BIN)\n');
  return [stub];
})(process.env['VAULT_BIN']);
