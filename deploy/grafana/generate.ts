import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dashboards } from './dashboards.ts';
import { build, serialise } from './kit.ts';

// node deploy/grafana/generate.ts
for (const [file, model] of Object.entries(dashboards)) {
  writeFileSync(join(import.meta.dirname, file), serialise(build(model)));
}
