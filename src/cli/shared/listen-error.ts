import { codeOf, messageOf } from './parse-options.ts';

const hints: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'is in use: stop the other process'],
  ['EACCES', 'needs more rights: choose a port above 1023'],
]);

/**
 * An error of `listen` as a sentence that names the option; the message of any other error.
 *
 * @param options what the operator sets to choose another port, such as `--port`, by port
 */
export function describeListenError(error: unknown, options: ReadonlyMap<number, string>): string {
  const hint = hints.get(codeOf(error));
  if (hint === undefined || !(error instanceof Error) || !('port' in error)) return messageOf(error);
  const { port } = error;
  const option = typeof port === 'number' ? options.get(port) : undefined;
  const choice = option === undefined ? '' : `, or choose another port with ${option}`;
  return `port ${String(port)}${'address' in error ? ` on ${String(error.address)}` : ''} ${hint}${choice}`;
}
