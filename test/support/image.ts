import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';

interface Instruction {
  readonly name: string;
  readonly text: string;
}
export interface Stage {
  readonly name: string;
  readonly from: string;
  readonly instructions: readonly Instruction[];
}

/** The stages of a Dockerfile, comments dropped and continued lines joined. No here-documents. */
export function readStages(dockerfile: string): Stage[] {
  const stages: { name: string; from: string; instructions: Instruction[] }[] = [];
  for (const { name, text } of instructionsOf(dockerfile)) {
    const from = /^(?:--platform=\S+ )?(\S+) AS (\S+)$/.exec(text);
    if (name === 'FROM') stages.push({ from: from![1]!, name: from![2]!, instructions: [] });
    else stages.at(-1)?.instructions.push({ name, text });
  }
  return stages;
}

/** Every instruction, those before the first `FROM` too. */
export function instructionsOf(dockerfile: string): Instruction[] {
  const lines = dockerfile.split('\n').filter((line) => !/^\s*(#|$)/.test(line));
  const joined = lines.join('\n').replace(/\s*\\\n\s*/g, ' ');
  return joined.split('\n').map((line) => {
    const [, name, text] = /^([A-Z]+) (.*)$/.exec(line)!;
    return { name: name!, text: text!.trim() };
  });
}

/** Whether a `.dockerignore` admits a path: the last line that matches it or one of its folders decides. */
export function admits(dockerignore: string, path: string): boolean {
  const folders = path.split('/').map((_, index, parts) => parts.slice(0, index + 1).join('/'));
  const rules = dockerignore.split('\n').filter((line) => !/^\s*(#|$)/.test(line));
  return rules.reduce((admitted, rule) => {
    const pattern = globOf(rule.replace(/^!/, ''));
    return folders.some((folder) => pattern.test(folder)) ? rule.startsWith('!') : admitted;
  }, true);
}

/** Docker's patterns: `*` also matches names with a leading dot, `**` any number of folders. */
function globOf(rule: string): RegExp {
  const literal = rule.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/\*\*\/|\*/g, (star) => (star === '*' ? '[^/]*' : '(.*/)?'))}$`);
}

/** Steps that only remove programs of the base image. */
const cleansBase = (text: string): boolean => /^rm -rf( \/(usr\/local|opt)\/\S+)+$/.test(text);

/**
 * Performs the steps of every stage in `into/<stage>`, and returns the folder of the last one. Two things
 * differ from a builder: the base image is this machine, and `npm ci` of a stage whose modules do not reach
 * the image is a link to the checkout's own modules, which the same lock file made.
 */
export function buildTree(root: string, into: string): string {
  const stages = readStages(readFileSync(join(root, 'Dockerfile'), 'utf8'));
  const dockerignore = readFileSync(join(root, '.dockerignore'), 'utf8');
  const allSteps = stages.flatMap(({ instructions }) => instructions.map(({ text }) => text)).join('\n');
  for (const stage of stages) {
    let cwd = '/';
    const here = (path: string): string => join(into, stage.name, posix.resolve(cwd, path));
    for (const { name, text } of stage.instructions) {
      if (name === 'WORKDIR') {
        cwd = text;
        mkdirSync(here('.'), { recursive: true });
      } else if (name === 'COPY') {
        copy(text, here, (from) => (from === undefined ? root : join(into, from)), dockerignore);
      } else if (name === 'RUN') {
        const modulesAreCopied = allSteps.includes(`--from=${stage.name} ${cwd}/node_modules`);
        run(text, here, modulesAreCopied ? undefined : join(root, 'node_modules'));
      }
    }
  }
  return join(into, stages.at(-1)!.name);
}

function copy(
  text: string,
  here: (path: string) => string,
  sourceOf: (stage: string | undefined) => string,
  dockerignore: string,
): void {
  const words = text.split(' ');
  const stage = words[0]?.startsWith('--from=') ? words.shift()!.slice('--from='.length) : undefined;
  const target = words.pop()!;
  const source = sourceOf(stage);
  const admitted = (path: string): boolean =>
    stage !== undefined || path === source || admits(dockerignore, relative(source, path));
  for (const word of words) {
    const to = here(target.endsWith('/') ? join(target, word) : target);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(join(source, word), to, { recursive: true, filter: admitted });
  }
}

function run(text: string, here: (path: string) => string, modules: string | undefined): void {
  const cwd = here('.');
  const command = text.replace(/^(--mount=\S+ )+/, '');
  if (cleansBase(command)) return;
  const [, target, link] = /^ln -s (\S+) (\/\S+)$/.exec(command) ?? [];
  if (target !== undefined && link !== undefined) {
    mkdirSync(dirname(here(link)), { recursive: true });
    symlinkSync(target, here(link));
    return;
  }
  if (command.startsWith('node dist/')) {
    execFileSync(process.execPath, command.split(' ').slice(1), { cwd, stdio: 'pipe' });
    return;
  }
  if (!command.startsWith('npm ')) throw new Error(`unknown step: ${command}`);
  if (command.startsWith('npm ci ') && modules !== undefined) {
    symlinkSync(modules, join(cwd, 'node_modules'));
    return;
  }
  const env = { ...process.env, npm_config_prefer_offline: 'true', npm_config_audit: 'false' };
  execFileSync('sh', ['-c', command], { cwd, env, stdio: 'pipe' });
}

/** Removes every write permission, like a read-only root file system. */
export function makeReadOnly(path: string): void {
  const entry = lstatSync(path);
  if (entry.isSymbolicLink()) return;
  if (entry.isDirectory()) for (const name of readdirSync(path)) makeReadOnly(join(path, name));
  chmodSync(path, entry.isDirectory() ? 0o555 : 0o444 | (entry.mode & 0o111));
}

/** The words of an exec-form instruction of the last stage: `ENTRYPOINT`, `CMD` or `HEALTHCHECK`. */
export function execForm(dockerfile: string, name: string): string[] {
  const text = readStages(dockerfile)
    .at(-1)!
    .instructions.find((one) => one.name === name)!.text;
  const words: unknown = JSON.parse(text.slice(text.indexOf('[')));
  return Array.isArray(words) ? words.map(String) : [];
}
