import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { KeysTestEnvironment } from '../support/keys-test-environment.ts';
import { root } from '../support/sources.ts';
import { describeVaults, vaultProgram } from '../support/stub-vault/describe-vaults.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { PageRunner, plainly, stepsIn } from '../support/vault-page.ts';
import { policyText } from '../support/vault-policies.ts';

const page = readFileSync(join(root, 'deploy/vault/README.md'), 'utf8');
const steps = stepsIn(page);
/** A token with the platform team's policy. */
async function platformToken({ admin }: KeysTestEnvironment): Promise<string> {
  const name = 'countersign-production-platform';
  await admin.policyText(name, policyText('platform', 'production', true));
  return admin.token({ policies: [name], ttl: '1h' });
}

describeVaults('deploy/vault/README.md', (server) => {
  const setup = new KeysTestEnvironment();
  let runner: PageRunner;

  beforeAll(async () => {
    await setup.open(server.admin);
    await setup.admin.enable('mounts', 'transit-production', { type: 'transit' });
    runner = server.isReal
      ? new PageRunner(setup, await platformToken(setup), vaultProgram)
      : new PageRunner(setup, rootToken);
  });
  afterAll(() => setup.close());

  it.each(steps.map((step) => ({ ...step, name: step.command.replaceAll(/\s*\\\n\s*/g, ' ') })))(
    'shows what this prints: $name',
    async (step) => {
      expect(plainly(await runner.run(step))).toBe(plainly(step.output));
    },
  );
});
