import { writeFileSync } from 'node:fs';
import { dashboards } from '../dashboards.ts';
import { picture } from './picture.ts';
import { readRecording } from './recorded.ts';

// node deploy/grafana/pictures/draw.ts, once the look of a dashboard has changed. Where its queries have, they
// are recorded anew first: node test/support/recording.ts.
for (const [file, model] of Object.entries(dashboards)) {
  const target = new URL(file.replace('.json', '.svg'), import.meta.url);
  writeFileSync(target, picture(model, readRecording(file)));
}
