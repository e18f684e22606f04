import type { FailingVault, VaultTrust } from '../outages.ts';
import { VaultAdmin } from './admin.ts';
import { roleName } from './harness.ts';
import { StubVault } from './server.ts';
import { rootToken } from './state.ts';

/** The stub over TLS, with the failures of an outage. */
export async function startFailingStub(
  trust: VaultTrust,
): Promise<FailingVault & { readonly stub: StubVault }> {
  const stub = new StubVault({ tls: trust.issue() });
  const address = await stub.listen();
  const { port } = stub;
  const limited = { kind: 'status', status: 429, errors: ['rate limit quota exceeded'] } as const;
  let jwt = '';
  const heal = async () => stub.heal();
  return {
    stub,
    address,
    caFile: trust.caFile,
    admin: new VaultAdmin(address, rootToken, () => trust.ca.cert),
    kill: () => stub.close(),
    restart: async () => void (await stub.listen(port)),
    hang: async () => stub.fail({ kind: 'black-hole' }),
    resume: heal,
    seal: async () => {
      stub.sealed = true;
    },
    unseal: heal,
    limitRate: async (mount = 'secret') => stub.fail(limited, new RegExp(`^${mount}/(data|sign)`)),
    async acceptServiceAccount(accepted) {
      jwt = accepted;
      const { kubernetes } = stub.world();
      kubernetes.role(roleName, { policies: [roleName], ttl: 3600 });
      kubernetes.accept(jwt);
    },
    // Vault rejects a token that it cannot have verified, as it does a wrong one.
    async kubernetesApi(isUp) {
      const { kubernetes } = stub.world();
      if (isUp) kubernetes.accept(jwt);
      else kubernetes.reject(jwt);
    },
    liftRateLimit: heal,
    show: async (certificate) => stub.show(certificate),
    reads: async () => stub.count(/^GET secret\/data/),
    close: () => stub.close(),
  };
}
