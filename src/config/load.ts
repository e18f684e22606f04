import { access, constants, readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { readTlsFiles } from '../tls/files.ts';
import { untimelyParts } from '../tls/material.ts';
import type { EnvLookup } from './env-substitution.ts';
import { referencedFiles, resolveFiles } from './file-references.ts';
import { type Path, type Problem, pathText } from './problem.ts';
import type { BuiltIn } from './rules/operations.ts';
import type { Config } from './schema.ts';
import { tlsFilesOf } from './tls-files.ts';
import { validateConfig } from './validate.ts';

/** Own properties only: `${constructor}` is a variable that is not set. */
export const fromEnvironment: EnvLookup = (name) =>
  Object.hasOwn(process.env, name) ? process.env[name] : undefined;

export interface LoadOptions {
  /** Where variables come from; {@link fromEnvironment} unless given. */
  readonly lookUp?: EnvLookup;
  /** Leaves out the look at the files that are named, which are not on a build machine. */
  readonly skipFiles?: boolean;
  /** Milliseconds since 1970: also says which certificates cannot be used at this moment. */
  readonly certificatesAt?: number;
}

/**
 * Reads and checks a configuration file, and looks whether the files it names can be read. All file paths in
 * the result are absolute. Rejects for nothing that is wrong with the file: that is a problem.
 */
export async function loadConfig(
  file: string,
  builtIn: BuiltIn,
  { lookUp = fromEnvironment, skipFiles = false, certificatesAt }: LoadOptions = {},
): Promise<{ config: Config } | { problems: readonly Problem[] }> {
  const fault = await fileProblem(file);
  if (fault !== undefined) return { problems: [{ path: '', line: 0, message: fault }] };
  const checked = validateConfig(await readFile(file, 'utf8'), { lookUp, builtIn });
  if ('problems' in checked) return checked;
  const config = resolveFiles(checked.config, dirname(file));
  const problems = skipFiles ? [] : await fileProblems(config, checked.lineOf);
  if (problems.length === 0 && !skipFiles && certificatesAt !== undefined) {
    problems.push(...(await certificateProblems(config, certificatesAt, checked.lineOf)));
  }
  return problems.length === 0 ? { config } : { problems };
}

async function fileProblems(config: Config, lineOf: (path: Path) => number): Promise<Problem[]> {
  const looked = await Promise.all(
    referencedFiles(config).map(async ({ path, file }) => ({ path, fault: await fileProblem(file) })),
  );
  return looked.flatMap(({ path, fault }) =>
    fault === undefined
      ? []
      : [{ path: pathText(path), line: lineOf(path), message: `names a file that ${fault}` }],
  );
}

/** Certificates and keys that cannot be parsed, do not belong together, or are not valid now. */
async function certificateProblems(
  config: Config,
  now: number,
  lineOf: (path: Path) => number,
): Promise<Problem[]> {
  const groups = tlsFilesOf(config).map(async ({ files, paths }) => {
    const read = await readTlsFiles(files);
    const faults = 'faults' in read ? read.faults : untimelyParts(read.material, now);
    return faults.map(({ part, message }) => ({ path: paths[part], message }));
  });
  return (await Promise.all(groups)).flat().map(({ path, message }) => ({
    path: pathText(path),
    line: lineOf(path),
    message: `names a file that ${message}`,
  }));
}

/** Why a file cannot be read. Does not repeat its name, in whose place somebody may have put a token. */
async function fileProblem(file: string): Promise<string | undefined> {
  try {
    await access(file, constants.R_OK);
    return (await stat(file)).isFile() ? undefined : 'is a folder or a device: name a file';
  } catch (error) {
    const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') return 'does not exist: check the path and the folder it starts from';
    if (code === 'EACCES') return 'may not be read: check its permissions';
    return `cannot be read (${String(code)})`;
  }
}
