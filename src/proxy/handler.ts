import type { OutgoingHttpHeaders } from 'node:http';
import type { Request, Response } from 'express';
import type { AuditLog } from '../audit/audit-log.ts';
import { type Authenticate, presentedCredentials } from '../auth/authenticate.ts';
import { type AccessRequest, decide, isGrantedIn } from '../auth/authorize.ts';
import type { CallerConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import { resolveLogin } from '../gateway/login.ts';
import { type OperationTable, verifyCallback } from '../gateway/operations.ts';
import { shownOrderId } from '../gateway/order-id.ts';
import type { Destination } from '../gateway/router.ts';
import { statusPathOf } from '../gateway/status-path.ts';
import { validateParameters } from '../gateway/validate-parameters.ts';
import { KeysMissing } from '../keys/ring.ts';
import type { KeySelector } from '../keys/selector.ts';
import type { DebugLog } from '../observability/debug-log.ts';
import type { EventObserver } from '../observability/events.ts';
import type { Logger } from '../observability/logger.ts';
import type { LoginRedactor } from '../observability/login-redactor.ts';
import type { RequestSpan } from '../observability/tracing/request-tracer.ts';
import type { Tracing } from '../observability/tracing/tracing.ts';
import { type RequestContext, type RequestRecord, type ResponseResult } from '../request-context.ts';
import { withSpan } from '../trace.ts';
import type { MonotonicClock, WallClock } from '../util/clock.ts';
import { rejectWebPage } from '../util/web-page.ts';
import { type CallbackVerdict, verdictOn } from './callback-verifier.ts';
import type { ReadForm } from './inbound/read-form.ts';
import { clientDetails, rejectedTarget, type TargetLookup } from './inbound/rejected-client.ts';
import { awaitReader, sendProblem, sendResponse, sendVerdict } from './inbound/send-response.ts';
import { parseTraceparent } from './inbound/trace-context.ts';
import { parseCallerRequestId, validateRequestHead } from './inbound/validate-head.ts';
import type { InflightRequests } from './inflight-requests.ts';
import type { ConcurrencyLimiter, MemoryBudget, MemoryReservation } from './limits.ts';
import { type Forwarder, keyRequestOf } from './outbound/forwarder.ts';
import type { SendOnce } from './outbound/send-once.ts';
import type { GatewayResponse } from './outbound/upstream-request.ts';
import { outcomeWithoutResponse, withTrueOutcome } from './outcome.ts';

export interface HandlerOptions extends TargetLookup, WallClock, MonotonicClock {
  readonly authenticate: Authenticate;
  readonly operations: OperationTable;
  readonly readForm: ReadForm;
  readonly limiter: ConcurrencyLimiter;
  readonly memory: MemoryBudget;
  readonly inflight: InflightRequests;
  readonly forwarder: Forwarder;
  readonly keySelector: Pick<KeySelector, 'find'>;
  /** Absent unless payments are to be sent once. */
  readonly once?: SendOnce | undefined;
  readonly log: Logger;
  /** Absent without an audit trail. */
  readonly audit?: AuditLog | undefined;
  /** At log level `debug` only. */
  readonly decisions?: DebugLog | undefined;
  readonly metrics: EventObserver;
  readonly tracing?: Pick<Tracing, 'begin'>;
  /** Host names, besides IP addresses and `localhost`, for requests of anonymous callers. */
  readonly allowedHosts: readonly string[];
  /** For each response, names in lower case. */
  readonly securityHeaders: OutgoingHttpHeaders;
  /** Milliseconds that the client has to read the response. */
  readonly responseReadTimeout: number;
  readonly newRequestId: () => string;
  /** Removes logins that may not be written. */
  readonly redactor: LoginRedactor;
}

/** Handles every request to the proxy port: one response, one log line and one set of metrics each. */
export function createHandler(
  options: HandlerOptions,
): (request: Request, response: Response) => Promise<void> {
  return async (request, response) => {
    const { aborted, end } = options.inflight.begin();
    const record: RequestRecord = {
      id: options.newRequestId(),
      callerRequestId: parseCallerRequestId(request.get('x-request-id')),
      startedAt: options.monotonic(),
      attempts: 0,
      durations: {},
    };
    const work: Work = { record, aborted };
    const start = (): Promise<ResponseResult> => processRequest(request, response, work, options);
    const delivery = options.decisions?.forRequest(work.record.id, start) ?? start();
    let result: ResponseResult | undefined;
    try {
      result = await Promise.race([delivery, aborted]);
    } catch (error) {
      const problem = toProxyError(error, work, options);
      // Read now, since the connection may end with the response.
      const client = clientDetails(request, options.clock(), problem, work.record.credential);
      // If the response was complete before an abort, that response counts.
      const { securityHeaders } = options;
      result =
        (await sendProblem(request, response, work.record, problem, securityHeaders)) ?? (await delivery);
      if (client !== undefined) {
        const target = rejectedTarget(work.record, work.deniedLogin, request.url, options);
        work.record.rejected = options.redactor.names({ ...client, ...target });
      }
    } finally {
      awaitReader(response, options.responseReadTimeout, () => work.memory?.release());
      const context = contextOf(work.record, result, options.monotonic());
      options.log.requestFinished(context);
      options.metrics.requestFinished(context);
      options.audit?.requestFinished(context);
      work.span?.finish(context);
      end();
    }
  };
}

/** The state of one request while it is handled. */
interface Work {
  readonly record: RequestRecord;
  /** Rejects if the process ends before the request is finished. */
  readonly aborted: Promise<never>;
  /** Absent unless the trace of the request is recorded. */
  span?: RequestSpan | undefined;
  /** The login that the caller is not allowed to use. */
  deniedLogin?: string;
  /** Absent until the caller is known, who holds it. */
  memory?: MemoryReservation;
}

/** @param result absent only if sending the error response failed as well */
function contextOf(record: RequestRecord, result: ResponseResult | undefined, now: number): RequestContext {
  const durations = { ...record.durations, total: (now - record.startedAt) / 1000 };
  const ended = result ?? { outcome: outcomeWithoutResponse(record) };
  return { ...record, ...ended, durations };
}

/** The request pipeline. A step that fails throws a ProxyError; only the last one sends anything. */
async function processRequest(
  request: Request,
  response: Response,
  work: Work,
  options: HandlerOptions,
): Promise<ResponseResult> {
  const { record } = work;
  validateRequestHead(request, options.allowedHosts);
  const { caller, credential } = await options.authenticate(presentedCredentials(request, options.clock()));
  record.caller = caller.name;
  // The hash of a token is too short to hold a card number.
  record.credential = credential.kind === 'token' ? credential : options.redactor.names(credential);
  options.decisions?.callerAuthenticated(caller.name, record.credential);
  // Only now is it known whether the client may say which trace the request belongs to.
  const parent = parseTraceparent(request.get('traceparent') ?? '');
  work.span = options.tracing?.begin({ parent, startedAt: record.startedAt });
  record.traceId = work.span?.traceId ?? parent?.traceId;
  record.traceSampled = work.span !== undefined || parent?.sampled;
  rejectWebPage(request.headers, credential.kind, options.allowedHosts);
  // What is configured is shown only to a caller whom it concerns, and who proved to be that caller.
  const mayKnow = (environment: string) =>
    credential.kind !== 'anonymous' && isGrantedIn(caller, environment);
  const destination = options.resolve(request.url, { mayKnow });
  record.environment = destination.environment;
  record.operation = destination.operation.name;
  record.readOnly = destination.operation.readOnly;
  work.span?.routed(
    `/${destination.environment}/${destination.settings.product}${destination.operation.path}`,
  );
  // Held until the gateway has responded, even if the client disconnects.
  const release = options.limiter.acquireForCaller(caller.name, caller.maxInFlight);
  let result: GatewayResponse | CallbackVerdict;
  try {
    result = await withSpan(work.span, () =>
      processForm(request, response, { caller, destination, release }, work, options),
    );
  } finally {
    release();
  }
  const { securityHeaders } = options;
  if ('result' in result) return sendVerdict(response, record.id, result, securityHeaders);
  return await sendResponse(request, response, record, result, destination, securityHeaders);
}

/** The steps for which the caller has a slot. */
async function processForm(
  request: Request,
  response: Response,
  {
    caller,
    destination,
    release: releaseCaller,
  }: { readonly caller: CallerConfig; readonly destination: Destination; readonly release: () => void },
  work: Work,
  options: HandlerOptions,
): Promise<GatewayResponse | CallbackVerdict> {
  const { record } = work;
  const { environment, operation, settings } = destination;
  const memory = options.memory.reservation(caller.name);
  work.memory = memory;
  const form = await options.readForm(request, response, memory);
  const login = resolveLogin(destination, form, request.get('countersign-login'));
  authorize(caller, { environment, operation: operation.name, login }, work, options);
  record.login = options.redactor.text(login);
  options.decisions?.requestRouted(record);
  validateParameters(operation, form);
  if (!operation.readOnly) {
    record.orderId = shownOrderId(operation, form);
    const mayUse = (name: string) => decide(caller, { environment, operation: name, login }) === 'allowed';
    record.statusPath = statusPathOf(options.operations, destination, mayUse);
  }
  const validated = { record, destination, login, form, memory };
  // Needs no gateway, and says nothing of it. Strangers send callbacks: while one waits for a new key, it holds no slot.
  if (operation.name === verifyCallback) {
    releaseCaller();
    return await verdictOn(validated, keyRequestOf(validated, options.monotonic()), options.keySelector);
  }
  const send = async (): Promise<GatewayResponse> => {
    // Held until the gateway has responded. Not while a claim waits for its store: queries go on.
    const release = options.limiter.acquireForEnvironment(environment, settings.maxInFlight);
    try {
      return await options.forwarder.send(validated);
    } finally {
      release();
    }
  };
  const { once, inflight } = options;
  if (!operation.once || once === undefined) return await send();
  // Else a claim could be made when nobody waits any more for its release.
  inflight.assertAccepting();
  return await once.send(validated, () => Promise.race([send(), work.aborted]));
}

/**
 * An unknown login gets the same response as one without a grant.
 *
 * @throws ProxyError `not-allowed`
 */
function authorize(
  caller: CallerConfig,
  accessRequest: AccessRequest,
  work: Work,
  { metrics, log }: HandlerOptions,
): void {
  const decision = decide(caller, accessRequest);
  work.record.decision = decision;
  metrics.authorizationDecided(caller.name, decision);
  if (decision === 'would-deny') {
    log.message('warn', 'would be denied in enforce mode', {
      requestId: work.record.id,
      caller: caller.name,
      ...accessRequest,
    });
  }
  if (decision === 'denied') {
    work.deniedLogin = accessRequest.login;
    throw new ProxyError('not-allowed', 'No grant allows this environment, operation and login.');
  }
}

/** Anything but a ProxyError is a bug: its message is neither logged nor sent, since it may hold data. */
function toProxyError(error: unknown, { record }: Work, { log, redactor }: HandlerOptions): ProxyError {
  if (error instanceof ProxyError) {
    record.limit = error.limit;
    if (error instanceof KeysMissing) record.keyKind = undefined;
    const detail = redactor.text(error.detail);
    return withTrueOutcome(detail === error.detail ? error : error.withDetail(detail), record);
  }
  log.internalError(record, error);
  return new ProxyError('internal', 'Internal error. Report the request ID to the operators.', {
    outcome: outcomeWithoutResponse(record),
  });
}
