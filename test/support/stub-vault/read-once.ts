import { createVaultSource } from '../../../src/keys/vault/source.ts';
import { Secret } from '../../../src/secret.ts';
import { acme, approleMount, configFor, day, RecordingObserver } from './harness.ts';

// A process of its own: a read with a token, a login by AppRole, and everything printed that could be.
const [, , address = '', token = '', secretIdFile = ''] = process.argv;
const told = new RecordingObserver();
const ports = { clock: Date.now, monotonic: () => performance.now(), random: () => 0.5, events: told };
for (const auth of [
  { method: 'token', token: new Secret(token) },
  { method: 'approle', mount: approleMount, roleId: 'countersign', secretIdFile },
] as const) {
  const source = createVaultSource(configFor(address, { auth, timeout: 1000 }), day, ports);
  console.log(await source.read(acme).catch((error: unknown) => error), told);
  await source.stop();
}
