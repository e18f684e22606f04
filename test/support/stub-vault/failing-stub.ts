import type { FailingVault, VaultTrust } from '../outages.ts';
import { VaultAdmin } from './admin.ts';
import { StubVault } from './server.ts';
import { rootToken } from './state.ts';

const secrets = /^secret\/data/;

/** The stub over TLS, with the failures of an outage. */
export async function startFailingStub(
  trust: VaultTrust,
): Promise<FailingVault & { readonly stub: StubVault }> {
  const stub = new StubVault({ tls: trust.issue() });
  const address = await stub.listen();
  const { port } = stub;
  const limited = (headers: Record<string, string>) =>
    stub.fail({ kind: 'status', status: 429, errors: ['rate limit quota exceeded'], headers }, secrets);
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
    limitRate: async (retryAfter) => limited(retryAfter ? { 'Retry-After': '1' } : {}),
    liftRateLimit: heal,
    show: async (certificate) => stub.show(certificate),
    reads: async () => stub.count(/^GET secret\/data/),
    close: () => stub.close(),
  };
}
