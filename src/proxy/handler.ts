import { TLSSocket } from 'node:tls';
import type { Request, Response } from 'express';
import type { PresentedCredentials } from '../auth/authenticate.ts';
import { type AccessRequest, isAllowed } from '../auth/authorize.ts';
import { parseSubjectAltName } from '../auth/certificate-names.ts';
import type { CallerConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import { resolveLogin } from '../gateway/login.ts';
import { validateParameters } from '../gateway/parameters.ts';
import type { Destination } from '../gateway/router.ts';
import type { Logger } from '../observability/logger.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import {
  createUpstreamRecord,
  type RequestContext,
  type RequestFacts,
  type RequestIdentity,
  type ResponseResult,
  type UpstreamRecord,
} from '../request-context.ts';
import type { ConcurrencyLimiter } from './concurrency-limiter.ts';
import { abortIfUnread, afterClose } from './inbound/abort-response.ts';
import type { ReadForm } from './inbound/read-form.ts';
import { sendProblem } from './inbound/send-problem.ts';
import { sendResponse } from './inbound/send-response.ts';
import { parseTraceparent } from './inbound/trace-context.ts';
import { validateRequestHead } from './inbound/validate-head.ts';
import type { InflightRequests } from './inflight-requests.ts';
import type { MemoryBudget, MemoryReservation } from './memory-budget.ts';
import type { Forwarder } from './outbound/forwarder.ts';
import type { ValidatedRequest } from './outbound/signed-request.ts';
import type { GatewayResponse } from './outbound/upstream-request.ts';
import { outcomeWithoutResponse, withTrueOutcome } from './outcome.ts';

export interface HandlerOptions {
  readonly authenticate: (presented: PresentedCredentials) => Promise<CallerConfig>;
  readonly resolve: (target: string) => Destination;
  readonly readForm: ReadForm;
  readonly limiter: ConcurrencyLimiter;
  readonly memory: MemoryBudget;
  readonly inflight: InflightRequests;
  readonly forwarder: Forwarder;
  readonly log: Logger;
  readonly metrics: MetricsObserver;
  /** Milliseconds that a caller may take to read its answer. */
  readonly responseReadTimeout: number;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
  /** Takes out of a text the logins that may not be written. */
  readonly redact: (text: string) => string;
}

/** Makes the handler of every request to the proxy: one response, one log line, one set of metrics each. */
export function createHandler(
  options: HandlerOptions,
): (request: Request, response: Response) => Promise<void> {
  return async (request, response) => {
    const work = beginWork(request, options);
    const { aborted, end } = options.inflight.begin();
    const delivery = deliver(request, response, work, options);
    let result: ResponseResult | undefined;
    try {
      result = await Promise.race([delivery, aborted]);
    } catch (error) {
      const problem = toProxyError(error, work, options);
      // An abort may come when the response has just been written: then that one counts.
      result = (await sendProblem(request, response, work.identity.id, problem)) ?? (await delivery);
    } finally {
      abortIfUnread(response, options.responseReadTimeout);
      afterClose(response, () => work.memory.release());
      const context = contextOf(work, result, options.monotonic());
      options.log.requestFinished(context);
      options.metrics.requestFinished(context);
      end();
    }
  };
}

/** What belongs to one request while it is handled. */
interface Work {
  readonly identity: RequestIdentity;
  readonly facts: RequestFacts;
  readonly upstream: UpstreamRecord;
  readonly memory: MemoryReservation;
}

function beginWork(request: Request, { newRequestId, monotonic, memory }: HandlerOptions): Work {
  const trace = parseTraceparent(request.get('traceparent'));
  return {
    identity: {
      id: newRequestId(),
      ...(trace === undefined ? {} : { traceId: trace.traceId, traceSampled: trace.sampled }),
      startedAt: monotonic(),
    },
    facts: {},
    upstream: createUpstreamRecord(),
    memory: memory.reservation(),
  };
}

/** @param result absent only where handling the failure of a request has failed as well */
function contextOf(
  { identity, facts, upstream }: Work,
  result: ResponseResult | undefined,
  now: number,
): RequestContext {
  const durations = { ...upstream.durations, total: (now - identity.startedAt) / 1000 };
  const outcome = outcomeWithoutResponse(upstream);
  return { ...identity, ...facts, ...upstream, outcome, ...result, durations };
}

async function deliver(
  request: Request,
  response: Response,
  work: Work,
  options: HandlerOptions,
): Promise<ResponseResult> {
  const { reply, destination } = await processRequest(request, response, work, options);
  return sendResponse(request, response, work.identity.id, reply, destination);
}

/** The request pipeline, one line per step. Every step throws a ProxyError, and nothing is sent before the last. */
async function processRequest(
  request: Request,
  response: Response,
  { facts, upstream, memory }: Work,
  options: HandlerOptions,
): Promise<{ reply: GatewayResponse; destination: Destination }> {
  validateRequestHead(request);
  const caller = await options.authenticate(credentialsOf(request, options.clock()));
  facts.caller = caller.name;
  const destination = options.resolve(request.url);
  facts.environment = destination.environment;
  facts.operation = destination.operation.name;
  facts.readOnly = destination.operation.readOnly;
  const form = await options.readForm(request, response, memory);
  const login = resolveLogin(destination, form, request.get('countersign-login'));
  authorize(
    caller,
    { environment: destination.environment, operation: destination.operation.name, login },
    options,
  );
  facts.login = login;
  validateParameters(destination.operation, form);
  const reply = await sendWithinLimit({ record: upstream, destination, login, form, memory }, options);
  return { reply, destination };
}

/** An unknown login gets the same answer as one that is not granted. */
function authorize(caller: CallerConfig, wish: AccessRequest, { metrics: meter, log }: HandlerOptions): void {
  if (isAllowed(caller, wish)) {
    meter.authorizationDecided(caller.name, 'allowed');
  } else if (caller.mode === 'dry-run') {
    meter.authorizationDecided(caller.name, 'would-deny');
    log.message('warn', 'enforcing would refuse this request', { caller: caller.name, ...wish });
  } else {
    meter.authorizationDecided(caller.name, 'refused');
    throw new ProxyError(
      'not-allowed',
      'No grant of this caller covers the environment, operation and login.',
    );
  }
}

/** Holds a place of the environment while the gateway is dealt with, whether or not the caller stays. */
async function sendWithinLimit(
  validated: ValidatedRequest,
  { limiter: admission, metrics: meter, forwarder: sender }: HandlerOptions,
): Promise<GatewayResponse> {
  const { environment, settings } = validated.destination;
  const leave = admission.acquire(environment, settings.maxInFlight);
  meter.upstreamStarted(environment);
  try {
    return await sender.send(validated);
  } finally {
    meter.upstreamFinished(environment);
    leave();
  }
}

function credentialsOf(request: Request, now: number): PresentedCredentials {
  const { socket } = request;
  const shown =
    socket instanceof TLSSocket && socket.authorized ? socket.getPeerX509Certificate() : undefined;
  // TLS looks at it once; a connection, or a session that is resumed, may outlive it.
  const valid = shown !== undefined && now <= shown.validToDate.getTime();
  return {
    authorization: request.get('authorization'),
    certificate: valid ? parseSubjectAltName(shown.subjectAltName) : undefined,
  };
}

/** Anything but a ProxyError is a defect: logged without its message, and the response has none of it. */
function toProxyError(
  error: unknown,
  { identity, upstream }: Work,
  { log, redact }: HandlerOptions,
): ProxyError {
  if (error instanceof ProxyError) {
    const detail = redact(error.detail);
    return withTrueOutcome(detail === error.detail ? error : error.withDetail(detail), upstream);
  }
  log.internalError(identity, error);
  return new ProxyError('internal', 'This is a defect of Countersign. Give its operators the request id.', {
    outcome: outcomeWithoutResponse(upstream),
  });
}
