import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { z } from 'zod';

/**
 * Prints the production packages of package-lock.json as npm lists them (CycloneDX), without what differs from run to run.
 * `npm sbom --omit dev` would leave out packages that development uses too, so they are chosen here.
 */
const ref = z.looseObject({ 'bom-ref': z.string() });
const bom = z.looseObject({
  metadata: z.looseObject({ component: ref }),
  components: z.array(ref),
  dependencies: z.array(z.looseObject({ ref: z.string(), dependsOn: z.array(z.string()).optional() })),
});
const flag = z.boolean().default(false);
const locked = z.object({ version: z.string(), dev: flag, optional: flag, devOptional: flag });
const lock = z.object({ packages: z.record(z.string(), locked) });

const options = ['--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only'];
const {
  serialNumber: _,
  metadata,
  ...all
} = bom.parse(JSON.parse(execFileSync('npm', ['sbom', ...options], { encoding: 'utf8' })));
const { timestamp: _at, ...constant } = metadata;
const { packages } = lock.parse(JSON.parse(readFileSync('package-lock.json', 'utf8')));
const used = new Set(
  Object.entries(packages)
    .filter(([, { dev, optional, devOptional }]) => !dev && !optional && !devOptional)
    .map(([path, { version }]) => `${path.replace(/^.*node_modules\//, '')}@${version}`),
);
used.add(metadata.component['bom-ref']);
const sbom = {
  ...all,
  metadata: constant,
  components: all.components.filter((component) => used.has(component['bom-ref'])),
  dependencies: all.dependencies
    .filter((one) => used.has(one.ref))
    .map((one) => ({ ...one, dependsOn: one.dependsOn?.filter((name) => used.has(name)) })),
};
process.stdout.write(`${JSON.stringify(sbom, null, 2)}\n`);
