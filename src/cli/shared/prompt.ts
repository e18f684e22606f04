import { CliError } from './cli-error.ts';

/** What `process.stdin` is at a terminal. */
export interface Terminal extends AsyncIterable<unknown> {
  setRawMode(raw: boolean): unknown;
  setEncoding(encoding: 'utf8'): unknown;
}

const controlC = '\u0003';
const controlD = '\u0004';
const backspaces = ['\u007f', '\b'];

/**
 * Reads from a terminal that shows nothing of it. Pasted text comes as a whole, so it is asked after each
 * piece, not after each line: what is left of a paste would go to the shell, and into its history.
 *
 * @param ask prints what is wanted; called once nothing is shown any more.
 * @throws Stop for Ctrl-C.
 */
export async function promptSecret(
  terminal: Terminal,
  ask: () => void,
  isComplete: (text: string) => boolean,
): Promise<string> {
  terminal.setEncoding('utf8');
  terminal.setRawMode(true);
  try {
    ask();
    let text = '';
    for await (const piece of terminal) {
      for (const character of String(piece)) {
        if (character === controlC) throw new CliError('interrupted. Nothing was written.');
        if (character === controlD) return text;
        text = typed(text, character);
      }
      if (isComplete(text)) return text;
    }
    return text;
  } finally {
    terminal.setRawMode(false);
  }
}

/** In raw mode nobody else does this: Enter is a carriage return, and backspace a character. */
function typed(text: string, character: string): string {
  if (backspaces.includes(character)) return text.slice(0, -1);
  return text + (character === '\r' ? '\n' : character);
}
