import { lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { canonicalUrl, hostOf, isLoopback } from '../../config/url.ts';
import { createAgent } from '../../net/agent.ts';
import { sendSmallRequest } from '../../net/small-request.ts';
import { parseJson } from '../../util/text.ts';
import { CliError, exitCode, messageOf } from '../shared/cli-error.ts';
import { type DemoSettings, readDemoScenario } from './config.ts';
import { keyDirectoryPrefix, writeAtomically } from './keys.ts';

/** Of the simulator, unless an option says otherwise. */
export const usualPorts = { gateway: 8090, gatewayAdmin: 8091 };

/** The admin API of a demo with {@link usualPorts}. */
export const usualUrl = `http://127.0.0.1:${usualPorts.gatewayAdmin}`;

/** Says which demo a command means. */
export const demoOption = {
  'gateway-admin-url URL': `Admin API of the demo, as its start and its ready file say (default: ${usualUrl})`,
};

/** It is printed, and may be of whoever has the port. */
const address = z.string().refine((url) => /^http:\/\/[\w.:[\]-]+$/.test(url) && URL.canParse(url));

/** The content of a ready file, and of `GET /demo` of the admin API. */
const runningDemo = z.object({
  proxyUrl: address,
  adminUrl: address,
  gatewayUrl: address,
  gatewayAdminUrl: address,
  keyDirectory: z.string(),
  pid: z.number(),
});

export type RunningDemo = Readonly<z.output<typeof runningDemo>>;

/** The scenario that the demo runs, in the key directory. */
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
 * Keeps the scenario for other commands, and writes the ready file if there is to be one. It appears only when it is complete.
 *
 * @returns removes the ready file, unless another demo has replaced it; the scenario is removed with the keys
 * @throws CliError if the ready file cannot be written
 */
export function announce(
  demo: RunningDemo,
  { scenarioText, readyFile }: { readonly scenarioText: string; readonly readyFile: string | undefined },
): () => void {
  writeFileSync(join(demo.keyDirectory, scenarioFile), scenarioText, { mode: 0o600 });
  if (readyFile === undefined) return () => {};
  try {
    writeAtomically(readyFile, `${JSON.stringify(demo, null, 2)}\n`);
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
 * The demo that runs at this address. It says itself which keys it has, so that they cannot be those of another one.
 *
 * @returns `undefined` if none responds
 * @throws CliError if its keys are out of reach
 */
export async function findDemo(
  gatewayAdminUrl = usualUrl,
  parent = tmpdir(),
): Promise<RunningDemo | undefined> {
  const { data: demo } = runningDemo.safeParse(await jsonOf(gatewayAdminUrl));
  if (demo === undefined || !isHere(demo, gatewayAdminUrl)) return undefined;
  if (isKeyDirectory(demo.keyDirectory, parent)) return demo;
  throw new CliError(
    `the keys of the demo at ${gatewayAdminUrl} are out of reach: run the command as its user, in its container and with its TMPDIR`,
  );
}

async function jsonOf(gatewayAdminUrl: string): Promise<unknown> {
  try {
    const url = new URL('/demo', gatewayAdminUrl);
    const way = { agent: createAgent(url.href, {}, {}), timeout: 5000, maxResponseBytes: 10_000 };
    return parseJson((await sendSmallRequest({ method: 'GET', url, headers: {} }, way)).text);
  } catch {
    return undefined;
  }
}

/** Whoever has the port could send requests anywhere: only to this machine, or to the one that is asked. */
function isHere({ proxyUrl, adminUrl, gatewayUrl, gatewayAdminUrl }: RunningDemo, asked: string): boolean {
  const [here, ...hosts] = [asked, proxyUrl, adminUrl, gatewayUrl, gatewayAdminUrl].map(
    (url) => new URL(canonicalUrl(url)).hostname,
  );
  return hosts.every((host) => host === here || host === 'localhost');
}

/**
 * Whoever has the port could name any directory: only one that this user made for a demo is read or written. The path must be
 * the one that a demo makes: another one, or a slash at its end, would follow links of other users.
 */
function isKeyDirectory(directory: string, parent: string): boolean {
  const name = basename(directory);
  if (!name.startsWith(keyDirectoryPrefix) || directory !== join(parent, name)) return false;
  const found = lstatSync(directory, { throwIfNoEntry: false });
  return found !== undefined && found.isDirectory() && found.uid === process.getuid?.();
}

/** `undefined` for what is no ready file, or cannot be read. */
function contentOf(file: string): RunningDemo | undefined {
  try {
    return runningDemo.safeParse(JSON.parse(readFileSync(file, 'utf8'))).data;
  } catch {
    return undefined;
  }
}
