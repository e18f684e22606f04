import { clearScreenDown, cursorTo } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fromEnvironment } from '../../config/variables.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, type Io } from '../shared/command.ts';
import { lineLength } from '../shared/table.ts';
import { options, type StatusSettings, settingsFrom } from './options.ts';
import { readStatus } from './read-status.ts';
import { asciiJson, statusLines } from './render.ts';

/** Milliseconds between two readings with `--watch`. */
const pause = 2_000;

const spec = {
  name: 'status',
  usage: '[--url URL] [--token-file FILE] [--watch] [--json] [options]',
  about:
    'Shows the findings of a running instance, and its keys with their rotation (docs/status.md). Changes nothing.',
  options,
  exitCodes: '0 ready; 1 not ready, no status, or a finding of --fail-on; 2 invalid usage',
};

export const status = command(spec, async ({ values }, io) => {
  const settings = await settingsFrom(values);
  if (!settings.watch) return show(settings, io);
  // The reader of the output is gone, such as head.
  process.stdout.once('error', () => process.exit());
  for (;;) {
    try {
      await show(settings, io);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      io.err(`No status: ${error.message}`);
    }
    await wait(pause);
  }
});

/** @returns the exit code. @throws CliError if there is no status */
async function show({ of, watch, json, failOn }: StatusSettings, io: Io): Promise<number> {
  const now = await readStatus(of);
  if (json) io.out(asciiJson(now, watch ? undefined : 2));
  else {
    if (watch) startBlock(io);
    // Without a terminal there are no columns; one without a window has 0.
    const width = process.stdout.columns > 0 ? process.stdout.columns : lineLength;
    for (const line of statusLines(now, of.url.origin, width)) io.out(line);
  }
  const fails = !now.health.ready || now.findings.some(({ severity }) => failOn.includes(severity));
  return fails ? exitCode.failed : exitCode.done;
}

/** At the top of a terminal; elsewhere, and at one without control sequences, after an empty line. */
function startBlock(io: Io): void {
  if (!process.stdout.isTTY || fromEnvironment('TERM') === 'dumb') return io.out('');
  cursorTo(process.stdout, 0, 0);
  clearScreenDown(process.stdout);
}
