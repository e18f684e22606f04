import { setTimeout as wait } from 'node:timers/promises';
import { exitCode } from '../shared/cli-error.ts';

/** What `process.stdout` is at a terminal. */
interface TerminalOutput {
  readonly columns: number;
  readonly rows: number;
  write(text: string): unknown;
}

/** Control sequences of xterm, which every terminal has since then. */
const enter = '\u001b[?1049h\u001b[?25l';
const leave = '\u001b[?25h\u001b[?1049l';
const home = '\u001b[H';
const clearLine = '\u001b[K';
const clearBelow = '\u001b[J';

/** That of the first terminals. */
const defaultSize = { columns: 80, rows: 24 };

/** What one reading shows. */
export interface Reading {
  readonly lines: readonly string[];
  /** There is no status, and the lines say why. */
  readonly failed: boolean;
  /** Of the command, if this is the last reading. */
  readonly exit: number;
}

interface WatchOptions {
  /** Milliseconds between two readings. */
  readonly interval: number;
  /** Ends the loop, also within a reading. */
  readonly stop: AbortSignal;
  readonly show: (reading: Reading) => void;
}

/**
 * Shows a reading at once and one after each interval until it is stopped.
 *
 * @returns the exit code of the last reading; failed without one
 */
export async function watch(
  read: (stop: AbortSignal) => Promise<Reading>,
  { interval, stop, show }: WatchOptions,
): Promise<number> {
  let exit: number = exitCode.failed;
  while (!stop.aborted) {
    const reading = await read(stop);
    // A reading that the signal ended says nothing about the instance.
    if (stop.aborted) break;
    exit = reading.exit;
    show(reading);
    // Rejects only when it is stopped.
    await wait(interval, undefined, { signal: stop }).catch(() => {});
  }
  return exit;
}

/** Aborts at SIGINT or SIGTERM, and when the reader of the output is gone, such as `head`. */
export function untilStopped(): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  process.once('SIGINT', stop).once('SIGTERM', stop);
  process.stdout.once('error', stop);
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', stop).off('SIGTERM', stop);
      process.stdout.off('error', stop);
    },
  };
}

/** Draws on the alternate screen of a terminal, so that what was there before comes back at the end. */
export function openScreen(terminal: TerminalOutput) {
  terminal.write(enter);
  return {
    /**
     * Replaces what is shown, without flicker. Cuts what does not fit: a line that wraps would scroll the screen.
     *
     * @param lines plain ASCII
     */
    draw(lines: readonly string[]): void {
      const { columns, rows } = sizeOf(terminal);
      const hidden = lines.length - rows;
      const more = `${hidden + 1} more lines: enlarge the window, or omit --watch`;
      const shown = hidden <= 0 ? lines : [...lines.slice(0, rows - 1), more];
      // Cleared before the text: after a full line the cursor is still on its last character.
      const text = shown.map((line, index) => {
        const clear = index === shown.length - 1 ? clearBelow : clearLine;
        return `${clear}${line.slice(0, columns)}`;
      });
      terminal.write(`${home}${text.join('\r\n')}`);
    },
    /** Shows the cursor and what was there before. */
    close: (): unknown => terminal.write(leave),
  };
}

/** A terminal without a window, such as a serial console or that of another program, has the size 0 or none. */
export function sizeOf({ columns, rows }: TerminalOutput): Pick<TerminalOutput, 'columns' | 'rows'> {
  return columns > 0 && rows > 0 ? { columns, rows } : defaultSize;
}
