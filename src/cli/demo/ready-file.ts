import { lstatSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { hostOf, isLoopback } from '../../config/url.ts';
import { errorCode } from '../../errors.ts';
import { CliError, exitCode, messageOf } from '../shared/cli-error.ts';
import { type DemoSettings, readDemoScenario } from './config.ts';
import { keyDirectoryPrefix, writeAtomically } from './keys.ts';

/** The content of a ready file. */
const runningDemo = z.object({
  proxyUrl: z.string(),
  adminUrl: z.string(),
  gatewayUrl: z.string(),
  gatewayAdminUrl: z.string(),
  keyDirectory: z.string(),
  pid: z.number(),
});

export type RunningDemo = Readonly<z.output<typeof runningDemo>>;

/** The copy of the ready file in the key directory, by which other commands find the demo. */
const ownFile = 'demo.json';
/** The scenario that the demo runs, beside it. */
const scenarioFile = 'scenario.yaml';

/** Beyond loopback the page requires a token, and the demo has none. */
export function hasStatusPage({ adminUrl }: Pick<RunningDemo, 'adminUrl'>): boolean {
  return isLoopback(hostOf(new URL(adminUrl)));
}

/**
 * Deletes the ready file of a demo that was killed: a test would find its URLs instead of waiting.
 *
 * @throws CliError for anything else with this name: it would be replaced, and deleted at the end
 */
export function removeStaleReadyFile(file: string): void {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isFile() || (found.size > 0 && contentOf(file) === undefined)) {
    throw new CliError(
      `--ready-file ${file} exists and is not a ready file. Delete it, or choose another path.`,
      exitCode.usage,
    );
  }
  rmSync(file);
}

/**
 * Announces the demo in its key directory and, if given, in a ready file. A file appears only when it is complete.
 *
 * @returns removes the ready file, unless another demo has replaced it; the other one is removed with the keys
 * @throws CliError if the ready file cannot be written
 */
export function announce(
  demo: RunningDemo,
  { scenarioText, readyFile }: { readonly scenarioText: string; readonly readyFile: string | undefined },
): () => void {
  writeFileSync(join(demo.keyDirectory, scenarioFile), scenarioText, { mode: 0o600 });
  const text = `${JSON.stringify(demo, null, 2)}\n`;
  writeAtomically(join(demo.keyDirectory, ownFile), text);
  if (readyFile === undefined) return () => {};
  try {
    writeAtomically(readyFile, text);
  } catch (error) {
    throw new CliError(`--ready-file ${readyFile} cannot be written: ${messageOf(error)}`);
  }
  return () => {
    if (contentOf(readyFile)?.pid === demo.pid) rmSync(readyFile, { force: true });
  };
}

/** The settings of a running demo that a signature depends on. */
export async function settingsOf({ keyDirectory }: RunningDemo): Promise<DemoSettings> {
  const { scenario } = await readDemoScenario(join(keyDirectory, scenarioFile));
  return { scenario, host: '127.0.0.1', allowedHosts: [], overrides: {} };
}

/**
 * The demo of a ready file, or without one {@link findRunningDemo}.
 *
 * @throws CliError if the file is not the ready file of a running demo
 */
export function findDemo(file: string | undefined): RunningDemo | undefined {
  if (file === undefined) return findRunningDemo();
  const [found] = readDemo(file);
  if (found !== undefined) return found.demo;
  throw new CliError(
    `${file} is not the ready file of a running demo: start one with countersign demo --ready-file ${file}`,
  );
}

/** The demo of this user that was started last and still runs. */
export function findRunningDemo(parent = tmpdir()): RunningDemo | undefined {
  const demos = readdirSync(parent)
    .filter((name) => name.startsWith(keyDirectoryPrefix))
    .map((name) => join(parent, name))
    .filter(isOwn)
    .flatMap((directory) => readDemo(join(directory, ownFile)));
  return demos.toSorted((a, b) => b.startedAt - a.startedAt)[0]?.demo;
}

/** In a directory of another user, a link could make any file of this one a demo, and it can change any time. */
function isOwn(directory: string): boolean {
  const found = lstatSync(directory, { throwIfNoEntry: false });
  return found !== undefined && found.isDirectory() && found.uid === process.getuid?.();
}

/** Nothing for a file of another user, one that is no ready file, or one whose demo has ended. */
function readDemo(file: string): { demo: RunningDemo; startedAt: number }[] {
  const found = statSync(file, { throwIfNoEntry: false });
  const demo = found?.uid === process.getuid?.() ? contentOf(file) : undefined;
  return found && demo && isAlive(demo.pid) ? [{ demo, startedAt: found.mtimeMs }] : [];
}

/** `undefined` for what is no ready file, or cannot be read. */
function contentOf(file: string): RunningDemo | undefined {
  try {
    return runningDemo.safeParse(JSON.parse(readFileSync(file, 'utf8'))).data;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}
