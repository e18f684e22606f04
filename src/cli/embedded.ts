import { generateKeyPair, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { listenSimulator } from '../simulator/listen.ts';
import { loadScenario } from '../simulator/scenario.ts';
import { gatewayKeysIn } from './gateway-keys.ts';
import { packageRoot } from './package-info.ts';

/** A gateway and keys for whoever has neither: the simulator on loopback, throw-away keys in a folder. */
export interface Embedded {
  readonly gatewayUrl: string;
  /** Values of the variables in config/embedded.yaml. */
  readonly variables: Readonly<Record<string, string>>;
  /** Stops the simulator and deletes the keys. */
  close(): Promise<void>;
}

/** What runs without `--config`. */
export const embeddedConfig = fileURLToPath(new URL('config/embedded.yaml', packageRoot));

/** The one environment of config/embedded.yaml. */
const environment = 'sandbox';

export async function startEmbedded(clock: () => number): Promise<Embedded> {
  const scenario = loadScenario(readFileSync(new URL('config/scenario.yaml', packageRoot), 'utf8'));
  const folder = mkdtempSync(join(tmpdir(), 'countersign-keys-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    await Promise.all(
      Object.keys(scenario.logins).map((login) => writeKeys(join(folder, environment, login))),
    );
    const gateway = await listenSimulator({ scenario, keys: await gatewayKeysIn(folder), clock, port: 0 });
    return {
      gatewayUrl: gateway.url,
      variables: { COUNTERSIGN_KEYS: folder, COUNTERSIGN_GATEWAY: gateway.url },
      close: () => gateway.close().finally(remove),
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** New secrets of a login, where the directory source looks for them. */
async function writeKeys(home: string): Promise<void> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  mkdirSync(home, { recursive: true, mode: 0o700 });
  writeFileSync(join(home, 'control_key'), randomBytes(24).toString('base64url'), { mode: 0o600 });
  writeFileSync(join(home, 'private_key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }), {
    mode: 0o600,
  });
}
