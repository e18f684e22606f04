import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { loadSimulatorKeys } from '../../src/cli/simulate.ts';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { startCountersign } from '../../src/service/lifecycle.ts';
import { compileCache } from '../support/compile-cache.ts';
import { startSimulator } from '../support/simulator.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';

const folder = mkdtempSync(join(tmpdir(), 'countersign-compose-'));
const vault = new StubVault();
beforeAll(async () => {
  for (const name of ['keys', 'login']) mkdirSync(join(folder, name));
  await vault.listen();
});
afterAll(async () => {
  await vault.close();
  rmSync(folder, { recursive: true });
});

async function prepare(): Promise<string> {
  const child = spawn(process.execPath, ['deploy/compose/prepare.mts'], {
    env: {
      ...compileCache,
      VAULT_ADDR: vault.address,
      VAULT_TOKEN: rootToken,
      KEYS_DIR: join(folder, 'keys'),
      LOGIN_DIR: join(folder, 'login'),
    },
  });
  const [output, problems] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.exitCode === null) await once(child, 'exit');
  return output + problems;
}

it('after two runs of prepare, Countersign signs requests that the simulator accepts', async () => {
  expect([await prepare(), await prepare()]).toEqual([
    `${vault.address} has keys for acme, beta in sandbox\n`,
    `${vault.address} has keys for acme, beta in sandbox\n`,
  ]);
  const simulator = await startSimulator({
    keys: await loadSimulatorKeys(join(folder, 'keys')),
    clock: Date.now,
  });
  // The configuration of deploy/compose.yaml with local addresses and paths.
  const composed = readFileSync('deploy/compose/countersign.yaml', 'utf8')
    .replace('http://127.0.0.1:8200', vault.address)
    .replace('http://simulator:8090', simulator.url)
    .replaceAll('/etc/countersign/login', join(folder, 'login'))
    .replaceAll(/host: "::", port: \d+/g, 'host: 127.0.0.1, port: 0');
  const checked = validateConfig(composed, { lookUp: () => undefined, builtIn: builtInOperations });
  if ('problems' in checked) throw new Error(JSON.stringify(checked.problems));
  const service = await startCountersign(
    { ...checked, digest: '' },
    { log: createLogger('silent', { write: () => {} }) },
  );
  try {
    const post = (path: string, body: string, token: string) =>
      fetch(`${service.proxyUrl}/sandbox/gw/api${path}`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${token}` },
        body: new URLSearchParams(body),
      });
    const status = 'login=acme&client_orderid=invoice-1';
    expect((await post('/v2/get-balance/manager/acme', '', 'countersign-demo')).status).toBe(200);
    expect((await post('/v4/status/1234', status, 'countersign-demo')).status).toBe(200);
    expect((await post('/v4/status/1234', status, 'unknown')).status).toBe(401);
  } finally {
    await service.stop(Promise.resolve());
    await simulator.close();
  }
});
