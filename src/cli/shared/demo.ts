import { generateKeyPair, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type ListeningSimulator, listenSimulator } from '../../simulator/listen.ts';
import { loadScenario } from '../../simulator/scenario.ts';
import type { Scenario } from '../../simulator/scenario-schema.ts';
import { errorCode } from '../../util/error-code.ts';
import { packageRoot } from '../../util/package-info.ts';
import { CliError } from './cli-error.ts';
import { loadSimulatorKeys } from './simulator-keys.ts';

/** The configuration used without `--config`. */
export const demoConfigFile = fileURLToPath(new URL('config/embedded.yaml', packageRoot));

/** The only environment of that configuration. */
const environment = 'sandbox';
const gatewayPort = 8090;

/** Throwaway keys for the demo. */
export interface DemoKeys {
  /** Values of the variables in config/embedded.yaml. */
  readonly variables: Readonly<Record<string, string>>;
  /** Deletes the keys. */
  remove(): void;
}

/** A file system in memory; writable in containers with a read-only root. */
const sharedMemory = '/dev/shm';

/**
 * Creates a directory in the first writable one of these.
 *
 * @throws CliError if none is writable
 */
export function createKeyDirectory(parents: readonly string[]): string {
  const failures: string[] = [];
  for (const parent of parents) {
    try {
      return mkdtempSync(join(parent, 'countersign-keys-'));
    } catch (error) {
      failures.push(`${parent} (${errorCode(error) ?? 'no code'})`);
    }
  }
  throw new CliError(
    `Without --config, Countersign writes temporary keys, but it cannot write to ${failures.join(' or ')}. ` +
      'Use --config FILE, or set TMPDIR to a writable directory',
  );
}

/** Generates keys for each login of the default scenario, in a directory that only this user can read. */
export async function generateDemoKeys(): Promise<DemoKeys> {
  const directory = createKeyDirectory([tmpdir(), sharedMemory]);
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  const logins = Object.keys(defaultScenario().logins);
  await Promise.all(logins.map((login) => writeKeys(join(directory, environment, login)))).catch(
    (error: unknown) => {
      remove();
      throw error;
    },
  );
  return {
    variables: { COUNTERSIGN_KEYS: directory, COUNTERSIGN_GATEWAY: `http://127.0.0.1:${gatewayPort}` },
    remove,
  };
}

/** Starts the gateway simulator, which accepts these keys. */
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

/** Writes new keys of a login to where the directory source reads them. */
async function writeKeys(directory: string): Promise<void> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  writeFileSync(join(directory, 'control_key'), randomBytes(24).toString('base64url'), { mode: 0o600 });
  writeFileSync(join(directory, 'private_key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }), {
    mode: 0o600,
  });
}
