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
 * Reads from a terminal with echo off. Checks for completeness after each chunk and not after each line: the rest of
 * a pasted text would go to the shell and into its history.
 *
 * @param printPrompt prints the prompt; called after echo is off
 * @throws CliError for Ctrl-C
 */
export async function promptSecret(
  terminal: Terminal,
  printPrompt: () => void,
  isComplete: (text: string) => boolean,
): Promise<string> {
  terminal.setEncoding('utf8');
  terminal.setRawMode(true);
  try {
    printPrompt();
    let text = '';
    for await (const chunk of terminal) {
      for (const character of String(chunk)) {
        if (character === controlC) throw new CliError('Interrupted. Nothing was written.');
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

/** Raw mode leaves this to us: Enter is a carriage return, and backspace is a character. */
function typed(text: string, character: string): string {
  if (backspaces.includes(character)) return text.slice(0, -1);
  return text + (character === '\r' ? '\n' : character);
}
