import { globSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';

const texts = z.record(z.string(), z.string());
const rule = z.object({ alert: z.string(), expr: z.string(), labels: texts, annotations: texts });
const ruleFile = z.object({ groups: z.array(z.object({ rules: z.array(z.unknown()) })) });

/** Every alert rule of the files in a folder. */
export function alertRulesIn(folder: string) {
  return globSync(`${folder}/*.rules.yaml`)
    .sort()
    .flatMap((file) => ruleFile.parse(parse(readFileSync(file, 'utf8'))).groups)
    .flatMap(({ rules }) => rules)
    .flatMap((one) => {
      const { success, data } = rule.safeParse(one);
      if (!success) return [];
      const { alert, expr, labels, annotations } = data;
      return [{ alert, expr, severity: labels['severity'], text: Object.values(annotations).join(' ') }];
    });
}
