import { errorCode } from '../../util/error-code.ts';
import { messageOf } from './system-error.ts';

/**
 * The message of an error of `listen`; of a port in use, with the option that chooses another one.
 *
 * @param options such as `--port`, by port
 */
export function describeListenError(error: unknown, options: ReadonlyMap<number, string>): string {
  const message = messageOf(error);
  if (errorCode(error) !== 'EADDRINUSE' || !(error instanceof Error) || !('port' in error)) return message;
  const option = typeof error.port === 'number' ? options.get(error.port) : undefined;
  return option === undefined
    ? message
    : message.replace(/(?<= in use\.).*/, ` Choose another port with ${option}.`);
}
