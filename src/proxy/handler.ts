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
import type { RequestContext } from '../request-context.ts';
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
  readonly admission: ConcurrencyLimiter;
  readonly memory: MemoryBudget;
  readonly inflight: InflightRequests;
  readonly sender: Forwarder;
  readonly log: Logger;
  readonly meter: MetricsObserver;
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

/** Makes the handler of every request to the proxy: one answer, one log line, one set of metrics each. */
export function createHandler(
  ports: HandlerOptions,
): (request: Request, response: Response) => Promise<void> {
  return async (request, response) => {
    const exchange = createContext(request, ports);
    const memory = ports.memory.reservation();
    const { aborted, end } = ports.inflight.begin();
    try {
      await Promise.race([respond(request, response, { exchange, memory }, ports), aborted]);
    } catch (error) {
      await sendProblem(request, response, exchange, toProxyError(error, exchange, ports));
    } finally {
      abortIfUnread(response, ports.responseReadTimeout);
      afterClose(response, () => memory.release());
      exchange.durations.total = (ports.monotonic() - exchange.startedAt) / 1000;
      ports.log.requestFinished(exchange);
      ports.meter.requestFinished(exchange);
      end();
    }
  };
}

/** What belongs to one request while it is handled. */
interface Scope {
  readonly exchange: RequestContext;
  readonly memory: MemoryReservation;
}

async function respond(
  request: Request,
  response: Response,
  scope: Scope,
  ports: HandlerOptions,
): Promise<void> {
  const { reply, settings } = await processRequest(request, response, scope, ports);
  await sendResponse(request, response, scope.exchange, reply, settings);
}

/** A request's way. Every step throws a Refusal, and nothing is sent before the last. */
async function processRequest(
  request: Request,
  response: Response,
  { exchange, memory }: Scope,
  ports: HandlerOptions,
): Promise<{ reply: GatewayResponse; settings: Destination['settings'] }> {
  validateRequestHead(request);
  const caller = await ports.authenticate(credentialsOf(request, ports.clock()));
  exchange.caller = caller.name;
  const destination = ports.resolve(request.url);
  exchange.environment = destination.environment;
  exchange.operation = destination.operation.name;
  exchange.readOnly = destination.operation.readOnly;
  const form = await ports.readForm(request, response, memory);
  const login = resolveLogin(destination, form, request.get('countersign-login'));
  authorize(
    caller,
    { environment: destination.environment, operation: destination.operation.name, login },
    ports,
  );
  exchange.login = login;
  validateParameters(destination.operation, form);
  const reply = await sendWithinLimit({ exchange, destination, login, form, memory }, ports);
  return { reply, settings: destination.settings };
}

/** An unknown login gets the same answer as one that is not granted. */
function authorize(caller: CallerConfig, wish: AccessRequest, { meter, log }: HandlerOptions): void {
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
  errand: ValidatedRequest,
  { admission, meter, sender }: HandlerOptions,
): Promise<GatewayResponse> {
  const { environment, settings } = errand.destination;
  const leave = admission.acquire(environment, settings.maxInFlight);
  meter.upstreamStarted(environment);
  try {
    return await sender.send(errand);
  } finally {
    meter.upstreamFinished(environment);
    leave();
  }
}

function createContext(request: Request, { newRequestId, monotonic }: HandlerOptions): RequestContext {
  const trace = parseTraceparent(request.get('traceparent'));
  return {
    id: newRequestId(),
    ...(trace === undefined ? {} : { traceId: trace.traceId, traceSampled: trace.sampled }),
    startedAt: monotonic(),
    outcome: 'not-sent',
    attempts: 0,
    durations: {},
  };
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

/** What is not a Refusal is a defect: logged without its text, answered without any of it. */
function toProxyError(error: unknown, exchange: RequestContext, { log, redact }: HandlerOptions): ProxyError {
  if (error instanceof ProxyError) {
    const detail = redact(error.detail);
    return withTrueOutcome(detail === error.detail ? error : error.withDetail(detail), exchange);
  }
  log.internalError(exchange, error);
  return new ProxyError('internal', 'This is a defect of Countersign. Give its operators the request id.', {
    outcome: outcomeWithoutResponse(exchange),
  });
}
