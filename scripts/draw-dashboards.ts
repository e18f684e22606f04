import { writeFileSync } from 'node:fs';
import { dashboards } from './dashboards/dashboards.ts';
import { picture } from './pictures/picture.ts';
import { readRecording } from './pictures/recorded.ts';

// Run when the layout or the texts of a dashboard have changed. If its queries have changed, first run
// node scripts/record-dashboards.ts.
for (const [file, model] of Object.entries(dashboards)) {
  const target = new URL(`../deploy/grafana/pictures/${file.replace('.json', '.svg')}`, import.meta.url);
  writeFileSync(target, picture(model, readRecording(file)));
}
