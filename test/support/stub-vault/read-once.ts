import { Secret } from '../../../src/secret.ts';
import { acme, approleMount, RecordingObserver, vaultConfig, vaultSource } from './harness.ts';

// A separate process: a read with a token, a login by AppRole, and all possible output.
const [, , address = '', token = '', secretIdFile = ''] = process.argv;
const events = new RecordingObserver();
const options = { clock: Date.now, monotonic: () => performance.now(), random: () => 0.5, events };
for (const auth of [
  { method: 'token', token: new Secret(token) },
  { method: 'approle', mount: approleMount, roleId: 'countersign', secretIdFile },
] as const) {
  const source = vaultSource(vaultConfig(address, { auth, timeout: 1000 }), options);
  console.log(await source.read(acme).catch((error: unknown) => error), events);
  await source.stop();
}
