import { globSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';

const ruleFile = z.object({
  groups: z.array(z.object({ rules: z.array(z.object({ alert: z.string().optional(), expr: z.string() })) })),
});

/** Every alert of the rule files in a folder, with its expression. */
export function alertExpressions(folder: string): readonly (readonly [string, string])[] {
  return globSync(`${folder}/*.rules.yaml`)
    .sort()
    .flatMap((file) => ruleFile.parse(parse(readFileSync(file, 'utf8'))).groups)
    .flatMap(({ rules }) => rules)
    .flatMap(({ alert, expr }) => (alert === undefined ? [] : [[alert, expr] as const]));
}
