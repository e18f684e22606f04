import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dashboards } from './dashboards/dashboards.ts';
import { build, serialize } from './dashboards/panels.ts';

for (const [file, model] of Object.entries(dashboards)) {
  writeFileSync(join(import.meta.dirname, '../deploy/grafana', file), serialize(build(model)));
}
