import { generateKeyPairSync } from 'node:crypto';
import { parseKeys } from '../../src/keys/key.ts';
import { fixedKeys } from './fixed-keys.ts';

/**
 * Run by a test with --expose-gc, in a separate process: fills the table with ten thousand logins, takes both keys of
 * each, and prints the cost.
 */
const logins = Array.from({ length: 10_000 }, (_, index) => ({
  environment: 'production',
  login: `merchant-${index}`,
}));
/** Each login parses its key separately, as in production; generating so many different keys takes too long. */
const pems = Array.from({ length: 20 }, () =>
  generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
);

let reads = 0;
const monotonic = () => performance.now();
const { keySelector } = fixedKeys(
  () => {
    reads += 1;
    const fields = { control_key: `control-key-${reads}`, private_key: pems[reads % pems.length] };
    return parseKeys(fields, { version: 1, createdAt: new Date() });
  },
  { clock: Date.now, monotonic },
);

function residentMemory(): number {
  globalThis.gc?.();
  return process.memoryUsage().rss;
}

const before = residentMemory();
for (const kind of ['control_key', 'private_key'] as const)
  for (const login of logins) {
    const request = { login, kind, caller: 'shop', endpoint: '', readOnly: true, maxInFlight: 200 };
    await keySelector.query({ ...request, deadline: monotonic() + 30_000 }, async (keyNow) => ({
      response: undefined,
      testimony: 'silent',
      key: keyNow(),
      sentAt: monotonic(),
    }));
  }
console.log(JSON.stringify({ bytes: residentMemory() - before, reads }));
