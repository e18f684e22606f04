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
  const { timeout, stopped } = way;
  const late = AbortSignal.timeout(timeout);
  const signal = stopped === undefined ? late : AbortSignal.any([late, stopped]);
  try {
    return await abortable(requestOver(request, way, signal), signal);
  } catch (error) {
    if (late.aborted) throw new NoResponse('late', `no response within ${timeout / 1000} s`);
    if (signal.aborted) throw new NoResponse('stopped', 'ended before there was a response');
    throw error;
  }
}

/** @throws NoResponse, or why there is no agent */
async function requestOver(request: Request, way: Way, signal: AbortSignal): Promise<SmallResponse> {
  const { method, url, headers, body } = request;
  const agent = await way.agent;
  let sent: ClientRequest | undefined;
  try {
    const send = url.protocol === 'https:' ? tlsRequest : plainRequest;
    sent = send(url, { method, agent, signal, headers });
    sent.end(body);
    const response = await responseTo(sent);
    return { ...headOf(response), ...(await collect(response, way.maxResponseBytes)) };
  } catch (error) {
    if (error instanceof NoResponse) throw error;
    // Most likely the server had already closed it.
    const isStale = sent?.reusedSocket === true && errorCode(error) === 'ECONNRESET';
    if (isStale && way.again !== undefined)
      return requestOver(request, { ...way, agent: way.again, again: undefined }, signal);
    throw new NoResponse('failed', describeNetworkFailure(error), error);
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
