import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dashboards } from './dashboards/dashboards.ts';
import { build, serialise } from './dashboards/panels.ts';

// node scripts/generate-dashboards.ts
for (const [file, model] of Object.entries(dashboards)) {
  writeFileSync(join(import.meta.dirname, '../deploy/grafana', file), serialise(build(model)));
}
