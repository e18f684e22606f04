import { fromEnvironment } from '../../config/load.ts';
import type { Status } from '../../observability/status/schema.ts';
import { CliError, failCommand } from '../shared/cli-error.ts';
import { exitCode, type Io, lineLength } from '../shared/io.ts';
import { optionsHelp, parseOptions } from '../shared/parse-options.ts';
import { readStatus } from './client.ts';
import { asciiJson, statusLines } from './render.ts';
import { options, type StatusSettings, settingsFrom } from './settings.ts';
import { type Reading, Screen, sizeOf, untilStopped, watch } from './watch.ts';

const usage = `Usage: countersign status [--url URL] [--token-file FILE] [--watch] [--json] [options]

Shows the status page of a running instance: findings, environments, keys and their rotation, callers, failed
requests, certificates, configuration (docs/status.md). Changes nothing.

${optionsHelp(options)}

Exit codes: 0 ready; 1 not ready, no status, or a finding of --fail-on (with --watch: at the last reading);
2 invalid usage.`;

/** Milliseconds for one status. */
const timeout = 5000;

/** @returns the exit code */
export async function status(argv: readonly string[], io: Io): Promise<number> {
  const parsed = parseOptions('status', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  try {
    const settings = await settingsFrom(parsed.values);
    if (settings.interval !== undefined) return await watchStatus(settings, settings.interval, io);
    const { lines, exit } = readingOf(await readStatus(settings.server, { timeout }), settings);
    for (const line of lines) io.out(line);
    return exit;
  } catch (error) {
    return failCommand('status', error, io);
  }
}

async function watchStatus(settings: StatusSettings, interval: number, io: Io): Promise<number> {
  const { server, json } = settings;
  const read = async (signal: AbortSignal): Promise<Reading> => {
    try {
      return readingOf(await readStatus(server, { timeout, signal }), settings);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      const lines = [`No status: ${error.message}`, `Next attempt in ${interval / 1000} s.`];
      return { lines, failed: true, exit: exitCode.failed };
    }
  };
  const stop = untilStopped();
  const screen = hasScreen() && !json ? new Screen(process.stdout) : undefined;
  const show = ({ lines, failed }: Reading): void => {
    if (screen !== undefined) screen.draw(lines);
    // A JSON reader gets nothing else on standard output. A block of text ends with an empty line.
    else for (const line of json ? lines : [...lines, '']) (json && failed ? io.err : io.out)(line);
  };
  try {
    return await watch(read, { interval, stop: stop.signal, show });
  } finally {
    screen?.close();
    stop.release();
  }
}

/** Characters: those of a terminal, or as many as a line of a table has elsewhere. */
function lineWidth(): number {
  return process.stdout.isTTY ? sizeOf(process.stdout).columns : lineLength;
}

/** A dumb terminal, such as that of an editor, would show control sequences as text. */
function hasScreen(): boolean {
  return process.stdout.isTTY && fromEnvironment('TERM') !== 'dumb';
}

function readingOf(status: Status, settings: StatusSettings): Reading {
  const { server, failures, json, interval, failOn } = settings;
  const { origin } = server.url;
  const lines = json
    ? [asciiJson(status, interval === undefined ? 2 : undefined)]
    : statusLines(status, { origin, failures, width: lineWidth() });
  const fails = !status.health.ready || status.findings.some(({ severity }) => failOn.includes(severity));
  return { lines, failed: false, exit: fails ? exitCode.failed : exitCode.done };
}
