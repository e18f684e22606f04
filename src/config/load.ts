import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { utf8In } from '../util/text.ts';
import { fileFindings, fileProblem, keyDirectoryNotices, resolveFiles } from './named-files.ts';
import { reportNotices } from './notices.ts';
import {
  type OperationsFile,
  operationsFileOf,
  readOperationsFile,
  withOperations,
} from './operations-file.ts';
import { parseText } from './parse-value.ts';
import { findingsOf, inOrder, located, type Path, type Problem } from './problem.ts';
import { withReplacement } from './removed.ts';
import { type BuiltIn, schemaWithRules } from './rules.ts';
import type { Config } from './schema.ts';
import { type EnvLookup, fromEnvironment } from './variables.ts';
import { readDocument } from './yaml.ts';

interface LoadOptions {
  /** Looks up variables; {@link fromEnvironment} by default. */
  readonly lookUp?: EnvLookup;
  /** Skips the check of referenced files, which do not exist on a build machine. */
  readonly skipFiles?: boolean;
  /** Milliseconds since 1970. If given, certificates must be valid at this time, and a missing key directory is noticed. */
  readonly certificatesAt?: number;
}

export interface ValidConfig {
  readonly config: Config;
  /**
   * SHA-256 over the bytes of the file and of its operationsFile, hex: variables are not yet substituted, so it says nothing
   * about a secret.
   */
  readonly digest: string;
}

/** A valid configuration with what may yet surprise, or what is wrong with it. */
export type LoadedConfig =
  | (ValidConfig & { readonly notices: readonly Problem[] })
  | { readonly problems: readonly Problem[] };

/**
 * Loads and validates a configuration file, and checks that the files it references are readable. All file paths in
 * the result are absolute. Never rejects for an invalid file: it returns the problems.
 */
export async function loadConfig(
  file: string,
  builtIn: BuiltIn,
  { lookUp = fromEnvironment, skipFiles = false, certificatesAt }: LoadOptions = {},
): Promise<LoadedConfig> {
  const folder = dirname(file);
  const problem = await fileProblem(file);
  if (problem !== undefined) return { problems: [{ path: '', line: 0, message: problem }] };
  const bytes = await readFile(file);
  const text = utf8In(bytes);
  if (text === undefined)
    return { problems: [{ path: '', line: 0, message: 'is not text in UTF-8; save it as UTF-8' }] };
  const document = readDocument(text, lookUp);
  const included = operationsFileOf(document.content?.value, folder);
  const added = included === undefined ? noOperations : await readOperationsFile(included, builtIn);
  if ('problems' in added) {
    const path = ['operationsFile'];
    return {
      problems: located(
        added.problems.map((message) => ({ path, message })),
        document.lineOf,
      ),
    };
  }
  const checked = validateConfig(text, { lookUp, builtIn, operations: added.operations });
  if ('problems' in checked) return checked;
  const { config } = checked;
  resolveFiles(config, folder);
  const findings = skipFiles ? [] : await fileFindings(config, certificatesAt);
  if (findings.length > 0) return { problems: inOrder(located(findings, checked.lineOf)) };
  const directory = skipFiles || certificatesAt === undefined ? [] : keyDirectoryNotices(config);
  const notices = inOrder([...checked.notices, ...located(directory, checked.lineOf)]);
  return { config, digest: hash('sha256', Buffer.concat([bytes, added.bytes])), notices };
}

const noOperations: OperationsFile = { operations: {}, bytes: Buffer.alloc(0) };

type CheckedText =
  | { readonly problems: readonly Problem[] }
  | {
      readonly config: Config;
      readonly lineOf: (path: Path) => number;
      readonly notices: readonly Problem[];
    };

interface ValidateOptions {
  readonly lookUp: EnvLookup;
  readonly builtIn: BuiltIn;
  /** Of the file that `operationsFile` names. */
  readonly operations?: OperationsFile['operations'];
}

/**
 * Parses the text of a configuration file into a {@link Config}, or reports all problems in the order of their lines.
 * Never throws and does no I/O. No message contains a value of the file.
 */
export function validateConfig(
  text: string,
  { lookUp, builtIn, operations = {} }: ValidateOptions,
): CheckedText {
  const fromVariables: Path[] = [];
  const lookUpAndNote: EnvLookup = (name, path) => {
    fromVariables.push(path);
    return lookUp(name, path);
  };
  const parsed = parseText(text, withOperations(operations, schemaWithRules(builtIn)), lookUpAndNote);
  if ('problems' in parsed) return { problems: parsed.problems.map(withReplacement) };
  const { data: config, lineOf } = parsed;
  const notices = findingsOf((report) => reportNotices(config, fromVariables, report));
  return { config, lineOf, notices: inOrder(located(notices, lineOf)) };
}
