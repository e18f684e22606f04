import { writeFileSync } from 'node:fs';
import { dashboards } from './dashboards/dashboards.ts';
import { picture } from './pictures/picture.ts';
import { readRecording } from './pictures/recorded.ts';

// node scripts/draw-dashboards.ts, once the look of a dashboard has changed. Where its queries have, they
// are recorded anew first: node scripts/record-dashboards.ts.
for (const [file, model] of Object.entries(dashboards)) {
  const target = new URL(`../deploy/grafana/pictures/${file.replace('.json', '.svg')}`, import.meta.url);
  writeFileSync(target, picture(model, readRecording(file)));
}
