import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { KeysBench } from '../support/keys-bench.ts';
import { root } from '../support/sources.ts';
import { rootToken } from '../support/stub-vault/world.ts';
import { PageRunner, plainly, stepsIn } from '../support/vault-page.ts';

const page = readFileSync(join(root, 'deploy/vault/README.md'), 'utf8');
const steps = stepsIn(page);
const bench = new KeysBench();
let runner: PageRunner;

beforeAll(async () => {
  await bench.open();
  runner = new PageRunner(bench, rootToken);
});
afterAll(() => bench.close());

describe('deploy/vault/README.md', () => {
  it('has sessions', () => {
    expect(steps.length).toBeGreaterThan(10);
  });

  it.each(steps.map((step) => ({ ...step, name: step.command.replaceAll(/\s*\\\n\s*/g, ' ') })))(
    'shows what this prints: $name',
    async (step) => {
      expect(plainly(await runner.run(step))).toBe(plainly(step.output));
    },
  );

  it('has the four procedures', () => {
    expect([...page.matchAll(/^## (.*)$/gm)].map(([, title]) => title)).toEqual([
      'Adding a login',
      'Rotating a control key',
      'Rotating an RSA key',
      'Emergency: key leaked',
    ]);
  });
});
