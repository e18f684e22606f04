import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { devServer } from '../support/stub-vault/real-vault.ts';
import { vectorText } from '../support/vectors.ts';
import { warmUp } from './measure.ts';
import { controlKey, startCountersign } from './proxies.ts';
import { figure } from './report.ts';
import { compareWays } from './side-by-side.ts';
import { startUpstream } from './upstream.ts';
import { type Way, wayThrough } from './ways.ts';

interface TransitOptions {
  readonly rounds: number;
  readonly seconds: number;
  readonly warmUpRequests: number;
}

/** Requests per second at which the latency is measured. */
const moderate = 100;

/**
 * RSA 2048 with the key in the secret and with a key that does not leave Vault, side by side in each round, on a real
 * server on this machine.
 *
 * @throws Error unless the environment variable `VAULT_BIN` names its program
 */
export async function measureTransit(options: TransitOptions): Promise<string> {
  if (process.env['VAULT_BIN'] === undefined) throw new Error('set VAULT_BIN to the program vault or bao');
  const vault = await devServer(process.env).open();
  const upstream = await startUpstream();
  const ends: (() => unknown)[] = [upstream.stop, () => vault.close()];
  try {
    const admin = new VaultAdmin(vault.address, vault.rootToken);
    await admin.enable('mounts', 'transit', { type: 'transit' });
    await admin.newTransitKey('acme');
    const rsa = {
      'in the secret': { private_key: vectorText('keys/rsa-2048-pkcs8.pem') },
      'in Transit': { transit_key: 'acme:1' },
    };
    const ways: Way[] = [];
    for (const [where, fields] of Object.entries(rsa)) {
      const path = `${where === 'in Transit' ? 'transit' : 'secret'}/{environment}/{login}`;
      await admin.put(path.replace('{environment}/{login}', 'sandbox/acme'), {
        control_key: controlKey,
        ...fields,
      });
      const transit = { mounts: { sandbox: 'transit' }, maxInFlight: 64, maxPerSecond: 100_000 };
      const auth = { method: 'token', token: vault.rootToken };
      const keys = { source: 'vault', vault: { address: vault.address, auth, path, transit } };
      const proxy = await startCountersign(upstream.url, 2048, { keys });
      ends.unshift(proxy.stop);
      await warmUp(wayThrough('Countersign', 'HMAC', proxy), options.warmUpRequests, { maxSeconds: 60 });
      ways.push({ ...wayThrough('Countersign', 2048, proxy), name: where });
    }
    const alone = await signatureTime(admin);
    const compared = await compareWays(ways, {
      ...options,
      moderate,
      what: 'the RSA key is',
      without: 'Vault',
    });
    return `${compared}\n\nA signature alone, in succession over a new connection each: ${figure(alone)} ms (median of 200).`;
  } finally {
    for (const end of ends) await end();
  }
}

/** Milliseconds, the median of 200. */
async function signatureTime(admin: VaultAdmin): Promise<number> {
  const input = Buffer.alloc(32).toString('base64');
  const body = { input, prehashed: true, signature_algorithm: 'pkcs1v15', key_version: 1 };
  const times: number[] = [];
  for (let count = 0; count < 200; count += 1) {
    const startedAt = performance.now();
    await admin.request('POST', 'transit/sign/acme/sha2-256', body);
    times.push(performance.now() - startedAt);
  }
  return times.toSorted((a, b) => a - b)[100] ?? Number.NaN;
}
