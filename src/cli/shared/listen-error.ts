import { errorCode } from '../../util/error-code.ts';
import { messageOf } from './system-error.ts';

/**
 * The message of an error of `listen`, with the option that chooses another port.
 *
 * @param options such as `--port`, by port
 */
export function describeListenError(error: unknown, options: ReadonlyMap<number, string>): string {
  const message = messageOf(error);
  if (errorCode(error) !== 'EADDRINUSE' || !(error instanceof Error) || !('port' in error)) return message;
  const option = typeof error.port === 'number' ? options.get(error.port) : undefined;
  return option === undefined ? message : `${message} The option is ${option}.`;
}
