import { stringify } from 'yaml';
import { z } from 'zod';
import { type Config, configSchema } from './schema.ts';

/** The configuration as YAML that loads as the same one, with every default. In place of each secret is `hidden`. */
export function configText(config: Config): string {
  // A text with "${" must not be read as a variable.
  const literal = (_: unknown, value: unknown): unknown =>
    typeof value === 'string' ? value.replaceAll('${', () => '$${') : value;
  return stringify(z.encode(configSchema, config), literal, { aliasDuplicateObjects: false, lineWidth: 0 });
}
