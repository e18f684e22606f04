import { fromEnvironment } from '../../config/variables.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, type Io, optionsHelp } from '../shared/command.ts';
import { lineLength } from '../shared/table.ts';
import { options, type StatusSettings, settingsFrom } from './options.ts';
import { readStatus } from './read-status.ts';
import { asciiJson, statusLines } from './render.ts';
import { openScreen, type Reading, sizeOf, untilStopped, watch } from './watch.ts';

const usage = `Usage: countersign status [--url URL | --demo] [--token-file FILE] [--watch] [--json] [options]

Shows the status page of a running instance: findings, environments, keys and their rotation, callers, failed
requests, certificates, configuration (docs/status.md). Changes nothing.

${optionsHelp(options)}

Exit codes: 0 ready; 1 not ready, no status, or a finding of --fail-on (with --watch: at the last reading); 2
invalid usage.`;

export const status = command({ name: 'status', options, usage }, async ({ values }, io) => {
  const settings = await settingsFrom(values);
  if (settings.interval !== undefined) return watchStatus(settings, settings.interval, io);
  const { lines, exit } = await read(settings);
  for (const line of lines) io.out(line);
  return exit;
});

async function watchStatus(settings: StatusSettings, interval: number, io: Io): Promise<number> {
  const { json } = settings;
  const readOrSayWhy = async (signal: AbortSignal): Promise<Reading> => {
    try {
      return await read(settings, signal);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      const lines = [`No status: ${error.message}`, `Next attempt in ${interval / 1000} s.`];
      return { lines, failed: true, exit: exitCode.failed };
    }
  };
  const stop = untilStopped();
  const screen = hasScreen() && !json ? openScreen(process.stdout) : undefined;
  const show = ({ lines, failed }: Reading): void => {
    if (screen !== undefined) screen.draw(lines);
    // A JSON reader gets nothing else on standard output. A block of text ends with an empty line.
    else for (const line of json ? lines : [...lines, '']) (json && failed ? io.err : io.out)(line);
  };
  try {
    return await watch(readOrSayWhy, { interval, stop: stop.signal, show });
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

/** @throws CliError if there is no status */
async function read(settings: StatusSettings, signal?: AbortSignal): Promise<Reading> {
  const { of, timeout, interval, failures, json, failOn } = settings;
  const status = await readStatus(of, { timeout, signal });
  const fails = !status.health.ready || status.findings.some(({ severity }) => failOn.includes(severity));
  return {
    lines: json
      ? [asciiJson(status, interval === undefined ? 2 : undefined)]
      : statusLines(status, { origin: of.url.origin, failures, width: lineWidth() }),
    failed: false,
    exit: fails ? exitCode.failed : exitCode.done,
  };
}
