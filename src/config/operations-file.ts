import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { z } from 'zod';
import { entriesOf, isMapping, utf8In } from '../util/text.ts';
import { fileProblem } from './named-files.ts';
import { parseText } from './parse-value.ts';
import { type BuiltIn, checkOperations, reportTo } from './rules.ts';
import { operationOverrides } from './schema/operation.ts';
import type { OperationOverride } from './schema.ts';

type Operations = Readonly<Record<string, OperationOverride>>;

/** Operations of a file, with its bytes. */
export interface OperationsFile {
  readonly operations: Operations;
  readonly bytes: Uint8Array;
}

/** The operations of a file such as config/operations.yaml, or what is wrong with it. */
export async function readOperationsFile(
  file: string,
  builtIn: BuiltIn,
): Promise<OperationsFile | { readonly problems: readonly string[] }> {
  const problem = await fileProblem(file);
  if (problem !== undefined) return { problems: [`names a file that ${problem}`] };
  const bytes = await readFile(file);
  const text = utf8In(bytes);
  if (text === undefined) return { problems: ['names a file that is not text in UTF-8'] };
  const schema = z
    .strictObject({ operations: operationOverrides }, 'must be a mapping with operations')
    .superRefine(({ operations }, context) =>
      checkOperations({ operations, environments: {} }, builtIn, reportTo(context)),
    );
  const parsed = parseText(text, schema);
  if ('data' in parsed) return { operations: parsed.data.operations, bytes };
  return {
    problems: parsed.problems.map(({ line, path, message }) =>
      ['names a file with a problem', `line ${line}`, path, message].filter((part) => part !== '').join(': '),
    ),
  };
}

/** The file that the content of a configuration names. @param folder that its path is relative to */
export function operationsFileOf(content: unknown, folder: string): string | undefined {
  const { operationsFile } = entriesOf(content);
  return typeof operationsFile === 'string' && operationsFile !== ''
    ? resolve(folder, operationsFile)
    : undefined;
}

/** A schema of content with a section `operations`, as if these stood there; its own fields have precedence. */
export function withOperations<T extends z.ZodType>(operations: Operations, schema: T) {
  return z.preprocess((content) => (isMapping(content) ? merged({ operations }, content) : content), schema);
}

function merged(below: unknown, above: unknown): unknown {
  if (above === undefined) return below;
  if (!isMapping(below) || !isMapping(above)) return above;
  const names = new Set([...Object.keys(below), ...Object.keys(above)]);
  return Object.fromEntries([...names].map((name) => [name, merged(below[name], above[name])]));
}
