import {
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as plainRequest,
} from 'node:http';
import { request as tlsRequest } from 'node:https';
import { errorCode } from '../errors.ts';
import { abortable } from '../util/promises.ts';
import { ConnectionError, describeNetworkFailure } from './network-failure.ts';

interface Request {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | undefined;
}

interface Way {
  /** Verifies the server. A promise where files are read for it, within the deadline too. */
  readonly agent: Agent | Promise<Agent>;
  /** For a request that may be repeated: sends it again if a kept-alive connection ended before the whole response. */
  readonly again?: Agent | undefined;
  /** Milliseconds until the whole response is there, also if it drips. */
  readonly timeout: number;
  /** Ends the request before. */
  readonly stopped?: AbortSignal | undefined;
  readonly maxResponseBytes: number;
}

export interface SmallResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
}

/** There is no whole response. The message is for operators; that of Node, the cause, may hold the address. */
export class NoResponse extends Error {
  override readonly name = 'NoResponse';
  readonly reason: 'late' | 'stopped' | 'too-large' | 'failed';
  /** Of a response that is too large. */
  readonly head: Pick<SmallResponse, 'status' | 'headers'> | undefined;

  constructor(reason: NoResponse['reason'], message: string, cause?: unknown, head?: NoResponse['head']) {
    super(message, { cause });
    this.reason = reason;
    this.head = head;
  }
}

/**
 * One HTTP request and its whole response, for everything that is not a payment: within a time and a size. Follows no
 * redirect, and uses no proxy of the environment.
 *
 * @throws NoResponse, or why there is no agent
 */
export async function sendSmallRequest(request: Request, way: Way): Promise<SmallResponse> {
  const { timeout, stopped, maxResponseBytes: maxBytes, again } = way;
  const late = AbortSignal.timeout(timeout);
  const signal = stopped === undefined ? late : AbortSignal.any([late, stopped]);
  const send = async (): Promise<SmallResponse> => {
    const agent = await way.agent;
    try {
      return await requestOver(request, agent, signal, maxBytes);
    } catch (error) {
      if (again === undefined || !(error instanceof StaleConnection)) throw error;
      return requestOver(request, again, signal, maxBytes);
    }
  };
  try {
    return await abortable(send(), signal);
  } catch (error) {
    if (late.aborted) throw new NoResponse('late', `no response within ${timeout / 1000} s`);
    if (signal.aborted) throw new NoResponse('stopped', 'ended before there was a response');
    throw error;
  }
}

/** A kept-alive connection ended: most likely the server had already closed it. */
class StaleConnection extends NoResponse {}

/** @throws NoResponse */
async function requestOver(
  { method, url, headers, body }: Request,
  agent: Agent,
  signal: AbortSignal,
  maxBytes: number,
): Promise<SmallResponse> {
  let request: ClientRequest | undefined;
  try {
    const send = url.protocol === 'https:' ? tlsRequest : plainRequest;
    request = send(url, { method, agent, signal, headers });
    request.end(body);
    const response = await responseTo(request);
    return { ...headOf(response), ...(await collect(response, maxBytes)) };
  } catch (error) {
    if (error instanceof NoResponse) throw error;
    const isStale = request?.reusedSocket && errorCode(error) === 'ECONNRESET';
    throw new (isStale ? StaleConnection : NoResponse)('failed', describeNetworkFailure(error), error);
  }
}

function responseTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    // Node sends no other event for it, not even when the signal aborts.
    request.once('upgrade', ({ statusCode }, socket) => {
      socket.destroy();
      reject(new ConnectionError('other', `status ${statusCode}`));
    });
    request.on('error', reject);
  });
}

async function collect(response: IncomingMessage, maxBytes: number) {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    // Leaving the loop destroys the socket, so the rest is not read.
    if (length > maxBytes)
      throw new NoResponse('too-large', 'the response is too large', undefined, headOf(response));
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  return { bytes, text: bytes.toString('utf8') };
}

function headOf({ statusCode: status = 0, headers }: IncomingMessage) {
  return { status, headers };
}
