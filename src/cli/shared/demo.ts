import { generateKeyPair, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type ListeningSimulator, listenSimulator } from '../../simulator/listen.ts';
import { loadScenario } from '../../simulator/scenario.ts';
import type { Scenario } from '../../simulator/scenario-shape.ts';
import { packageRoot } from '../../util/package-info.ts';
import { CliError } from './cli-error.ts';
import { codeOf } from './parse-options.ts';
import { loadSimulatorKeys } from './simulator-keys.ts';

/** What runs without `--config`. */
export const demoConfigFile = fileURLToPath(new URL('config/embedded.yaml', packageRoot));

/** The one environment of that configuration. */
const environment = 'sandbox';
const gatewayPort = 8090;

/** Keys for whoever has none: thrown away afterwards. */
export interface DemoKeys {
  /** Values of the variables in config/embedded.yaml. */
  readonly variables: Readonly<Record<string, string>>;
  /** Deletes the keys. */
  remove(): void;
}

/** Memory as a file system; writable in containers whose root is read-only. */
const sharedMemory = '/dev/shm';

/**
 * Makes a folder in the first of these that can be written to.
 *
 * @throws Stop that says why there is none, and what to do
 */
export function makeKeyFolder(parents: readonly string[]): string {
  const failures: string[] = [];
  for (const parent of parents) {
    try {
      return mkdtempSync(join(parent, 'countersign-keys-'));
    } catch (error) {
      failures.push(`${parent} (${codeOf(error)})`);
    }
  }
  throw new CliError(
    `Without --config, Countersign writes temporary keys, and it cannot write to ${failures.join(' or ')}: ` +
      'give it a configuration with --config FILE, or set TMPDIR to a writable folder',
  );
}

/** Makes new keys for each login of the default scenario, in a folder that only this user can read. */
export async function generateDemoKeys(): Promise<DemoKeys> {
  const folder = makeKeyFolder([tmpdir(), sharedMemory]);
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const logins = Object.keys(defaultScenario().logins);
  await Promise.all(logins.map((login) => writeKeys(join(folder, environment, login)))).catch(
    (error: unknown) => {
      remove();
      throw error;
    },
  );
  return {
    variables: { COUNTERSIGN_KEYS: folder, COUNTERSIGN_GATEWAY: `http://127.0.0.1:${gatewayPort}` },
    remove,
  };
}

/** A gateway for whoever has none: the simulator, which accepts what these keys sign. */
export async function startDemoGateway(keys: DemoKeys): Promise<ListeningSimulator> {
  const accepted = await loadSimulatorKeys(keys.variables.COUNTERSIGN_KEYS ?? '');
  return listenSimulator({
    scenario: defaultScenario(),
    keys: accepted,
    clock: () => Date.now(),
    port: gatewayPort,
  });
}

function defaultScenario(): Scenario {
  return loadScenario(readFileSync(new URL('config/scenario.yaml', packageRoot), 'utf8'));
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
