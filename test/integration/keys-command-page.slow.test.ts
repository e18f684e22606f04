import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { KeysTestEnvironment } from '../support/keys-test-environment.ts';
import { describeWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';
import { devServer, noDevServer, type RunningVault } from '../support/stub-vault/real-vault.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { PageRunner, plainly, stepsIn } from '../support/vault-page.ts';
import { policyText } from '../support/vault-policies.ts';

const page = readFileSync(join(root, 'deploy/vault/README.md'), 'utf8');
const steps = stepsIn(page);
const real = devServer(process.env);

/** A token with the platform team's policy. */
async function platformToken({ admin }: KeysTestEnvironment): Promise<string> {
  const name = 'countersign-production-platform';
  await admin.policyText(name, policyText('platform', 'production', true));
  return admin.token({ policies: [name], ttl: '1h' });
}

for (const isReal of [false, true]) {
  describeWhere(!isReal || real.program !== undefined, noDevServer)(
    `deploy/vault/README.md, against ${isReal ? 'a real server' : 'the stub'}`,
    () => {
      const setup = new KeysTestEnvironment();
      let server: RunningVault | undefined;
      let runner: PageRunner;

      beforeAll(async () => {
        server = isReal ? await real.open() : undefined;
        await setup.open(server);
        await setup.admin.enable('mounts', 'transit-production', { type: 'transit' });
        runner = isReal
          ? new PageRunner(setup, await platformToken(setup), real.program)
          : new PageRunner(setup, rootToken);
      }, 20_000);
      afterAll(async () => {
        await setup.close();
        await server?.close();
      });

      it.each(steps.map((step) => ({ ...step, name: step.command.replaceAll(/\s*\\\n\s*/g, ' ') })))(
        'shows what this prints: $name',
        async (step) => {
          expect(plainly(await runner.run(step))).toBe(plainly(step.output));
        },
      );
    },
  );
}
