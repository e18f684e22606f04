import { createAgent } from '../../util/agent.ts';
import { sendHttpRequest } from '../../util/http-request.ts';
import { describeNetworkFailure } from '../../util/network-failure.ts';
import { CliError } from '../shared/cli-error.ts';

/** Milliseconds. */
const timeout = 5000;
const maxResponseBytes = 1_048_576;

/**
 * Sends one request to a port of a running demo.
 *
 * @param token of its scenario, if that requires one
 * @returns the status
 * @throws CliError if there is no response
 */
export async function sendToDemo(
  method: string,
  address: string,
  contentType: string,
  body: string,
  token?: string,
): Promise<number> {
  const url = new URL(address);
  const options = {
    agent: createAgent(address, {}, { keepAlive: false }),
    signal: AbortSignal.timeout(timeout),
    maxResponseBytes,
  };
  const bytes = Buffer.from(body);
  const headers = {
    'Content-Type': contentType,
    'Content-Length': String(bytes.length),
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  try {
    return (await sendHttpRequest({ method, url, headers, body: bytes }, options)).status;
  } catch (error) {
    const cause = options.signal.aborted
      ? `no response in ${timeout / 1000} s`
      : describeNetworkFailure(error);
    throw new CliError(`${url.origin}: ${cause}. Check whether the demo still runs.`);
  }
}
