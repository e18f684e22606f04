import { setTimeout as wait } from 'node:timers/promises';
import type { AuditLog } from '../../audit/audit-log.ts';
import { ProxyError } from '../../errors.ts';
import { acceptsKey, skewOf } from '../../gateway/response.ts';
import type { Probe } from '../../keys/held-back-payments.ts';
import { sameKey } from '../../keys/key.ts';
import type { MutableUse, RetryPolicy } from '../../keys/key-history.ts';
import type { KeySelector, LoginKeys, Payment, PaymentKey, Verdict } from '../../keys/key-selector.ts';
import type { LoginRef } from '../../keys/login-ref.ts';

import type { Patience } from '../../keys/waiting.ts';
import { methods } from '../../oauth1/methods.ts';
import type { DebugLog } from '../../observability/debug-log.ts';
import type { EventObserver } from '../../observability/events.ts';
import type { Randomness } from '../../util/clock.ts';
import { inSpan, type Span, serverAttributes } from '../../util/trace.ts';
import { type SigningOptions, signRequest, type ValidatedRequest } from './signed-request.ts';
import type { UpstreamClient } from './upstream-client.ts';
import { proxyErrorFor, UpstreamError } from './upstream-error.ts';
import type { GatewayResponse, SignedHttpRequest } from './upstream-request.ts';

export interface ForwarderOptions extends SigningOptions, Randomness {
  readonly keySelector: KeySelector;
  /** One per environment. */
  readonly upstreams: ReadonlyMap<string, UpstreamClient>;
  readonly metrics: EventObserver;
  /** Absent without an audit trail. */
  readonly audit?: AuditLog | undefined;
  /** At log level `debug` only. */
  readonly decisions?: DebugLog | undefined;
}

/** The part of an environment's `maxInFlight` that may wait for the keys of one login, and at least how many. */
const waiting = { share: 0.25, least: 10 };

/**
 * Seconds. How much skew the gateway tolerates is not specified (docs/gateway-interface.md section 5.4); more than
 * this is a likely cause of a 403.
 */
const suspiciousSkew = 60;

type PlannedUse = MutableUse & { probe?: Probe };

/** What each attempt of a request needs. */
interface Way {
  readonly request: ValidatedRequest;
  readonly keys: LoginKeys;
  readonly patience: Patience;
}

/** Selects the key, signs and forwards a request. Retries only where that is safe. */
export class Forwarder {
  readonly #options: ForwarderOptions;

  constructor(options: ForwarderOptions) {
    this.#options = options;
  }

  /**
   * @throws ProxyError `key-*`, `signing-unavailable`, `audit-unavailable` or `overloaded`, or `gateway-*` if there is no response. Its outcome is that of the
   *   last attempt; the request's record has those of all attempts
   */
  async send(request: ValidatedRequest): Promise<GatewayResponse> {
    const startedAt = this.#options.monotonic();
    return await this.#send(request, isRetryable(request) ? 'retryable' : 'single-attempt', startedAt);
  }

  async #send(request: ValidatedRequest, policy: RetryPolicy, startedAt: number): Promise<GatewayResponse> {
    const patience = patienceOf(request, startedAt);
    const keys = await this.#keysOf(request, patience);
    const way = { request, keys, patience };
    const choice = policy === 'retryable' ? { key: keys.select() } : await choose(way);
    const { record, destination } = request;
    const use: PlannedUse = {
      ...choice,
      operation: destination.operation.name,
      sentAt: this.#options.monotonic(),
    };
    record.durations.key = (use.sentAt - startedAt) / 1000;
    try {
      const response = await this.#sendWithRetries(way, use);
      const verdict = this.#judge(response);
      if (verdict === 'accepted') keys.recordAccepted(use);
      if (response.status !== 403) return response;
      record.rejection = verdict === 'clock-skew' ? 'clock-skew' : 'current-key';
      if (isRetryable(request)) return await this.#sendWithOtherKeys(way, use, verdict, response);
      keys.recordRejected(use, verdict, paymentOf(request).place);
      return response;
    } finally {
      use.probe?.end();
    }
  }

  #keysOf(request: ValidatedRequest, patience: Patience): Promise<LoginKeys> {
    const { kind } = methods[request.destination.operation.signature];
    return this.#options.keySelector.keysOf(loginRefOf(request), kind, patience);
  }

  /** @returns the last response */
  async #sendWithOtherKeys(
    way: Way,
    rejected: PlannedUse,
    verdict: Verdict,
    first: GatewayResponse,
  ): Promise<GatewayResponse> {
    const { record } = way.request;
    let last = first;
    let written = record.writtenAttempts;
    try {
      for await (const trial of way.keys.others(rejected, verdict, way.patience)) {
        const response = await this.#sendWithRetries(way, trial);
        last.rest?.destroy();
        last = response;
        written = record.writtenAttempts;
        trial.verdict = this.#judge(response);
        if (trial.verdict === 'accepted') record.rejection = 'other-key';
      }
    } catch (error) {
      // The gateway has already responded. A retry that could not be sent must not hide that response.
      if (error instanceof ProxyError && record.writtenAttempts === written) return last;
      last.rest?.destroy();
      throw error;
    }
    return last;
  }

  async #sendWithRetries(way: Way, use: PlannedUse): Promise<GatewayResponse> {
    const { request } = way;
    const { deadline } = way.patience;
    const { environment } = request.destination;
    const { readOnly, name: operation } = request.destination.operation;
    let mayRetry: ReturnType<typeof retryBudget> | undefined;
    let dedicatedConnection = !readOnly;
    for (;;) {
      try {
        const signed = await this.#sign(way, use);
        return await inSpan('upstream request', (span) =>
          this.#sendOnce(request, signed, dedicatedConnection, deadline, span),
        );
      } catch (failure) {
        if (!(failure instanceof UpstreamError)) throw failure;
        const { unreachable: cause, tlsAlert } = failure;
        if (tlsAlert !== undefined) request.record.tlsAlert = tlsAlert;
        if (cause !== undefined) {
          request.record.unreachable = cause;
          this.#options.metrics.gatewayUnreachable({ environment, operation, cause });
        }
        this.#options.decisions?.attemptFailed(operation, failure);
        const delay = 50 + 150 * this.#options.random();
        const timeLeft = this.#options.monotonic() + delay < deadline;
        mayRetry ??= retryBudget(readOnly);
        if (!timeLeft || !mayRetry(failure)) throw proxyErrorFor(failure, request.destination);
        dedicatedConnection = true;
        this.#options.decisions?.retryScheduled(operation, delay);
        await wait(delay);
      }
    }
  }

  /**
   * Signs again if the key was replaced meanwhile: while a payment waits for its signature or a retry, the gateway
   * may switch to another key.
   */
  async #sign(way: Way, use: PlannedUse): Promise<SignedHttpRequest> {
    const { monotonic, decisions, audit } = this.#options;
    const { request, keys, patience } = way;
    for (;;) {
      const startedAt = monotonic();
      decisions?.keySelected(loginRefOf(request), use, keys.reasonFor(use.key));
      const signature = await inSpan('signature', (span) => {
        span?.add({
          'countersign.key.kind': use.key.kind,
          'countersign.key.version': use.key.version,
          'countersign.signer': 'publicKey' in use.key.key ? 'transit' : 'process',
          'countersign.signature.method': request.destination.operation.signature,
        });
        return signRequest(request, use.key, this.#options);
      });
      // Before the check below, since the key may be replaced while the record is written.
      const recorded = audit?.intent({ request, key: use.key, signature });
      if (recorded !== undefined) await inSpan('audit record', () => recorded);
      const { record } = request;
      record.keyKind = use.key.kind;
      record.keyVersion = use.key.version;
      if (use.key.fingerprint !== undefined) record.keyFingerprint = use.key.fingerprint;
      use.sentAt = monotonic();
      record.durations.sign = (record.durations.sign ?? 0) + (use.sentAt - startedAt) / 1000;
      if (isRetryable(request) || !keys.isOutdated(use, paymentOf(request).place)) return signature.http;
      use.probe?.end();
      const { key, probe } = await choose({ ...way, keys: await this.#keysOf(request, patience) });
      use.sentAt = monotonic(); // the selection may have waited for a trial
      if (probe === undefined) delete use.probe;
      else use.probe = probe;
      if (sameKey(key, use.key)) return signature.http;
      use.key = key;
    }
  }

  #judge(response: GatewayResponse): Verdict {
    if (response.status !== 403) return acceptsKey(response.status) ? 'accepted' : 'unclear';
    const skew = skewOf(response.headers.date, this.#options.clock()) ?? 0;
    return Math.abs(skew) > suspiciousSkew ? 'clock-skew' : 'rejected';
  }

  async #sendOnce(
    request: ValidatedRequest,
    signed: SignedHttpRequest,
    dedicatedConnection: boolean,
    deadline: number,
    span?: Span,
  ): Promise<GatewayResponse> {
    const { monotonic, upstreams, metrics, clock } = this.#options;
    const { record, destination, memory } = request;
    const { environment, settings, operation } = destination;
    const upstream = upstreams.get(environment);
    if (upstream === undefined) throw new TypeError(`no upstream for ${environment}`);
    const startedAt = monotonic();
    // The wait for a key or a signature may have used up the time.
    if (startedAt >= deadline) throw new UpstreamError('gateway-timeout', false, false);
    // Whole milliseconds, because Node keeps one list of timers per distinct duration.
    const remaining = Math.max(0, Math.ceil(deadline - startedAt));
    span?.add({
      'http.request.method': 'POST',
      'http.request.resend_count': record.attempts === 0 ? undefined : record.attempts,
      ...serverAttributes(signed.url),
      'countersign.connection': dedicatedConnection ? 'dedicated' : 'pooled',
    });
    record.attempts += 1;
    try {
      const response = await upstream.send(signed, {
        dedicatedConnection,
        connect: Math.min(settings.timeouts.connect, remaining),
        total: remaining,
        memory,
        onConnected() {
          record.writtenAttempts = (record.writtenAttempts ?? 0) + 1;
          span?.mark('connected');
        },
      });
      record.gatewayStatus = response.status;
      span?.add({ 'http.response.status_code': response.status });
      if (response.status >= 400) span?.fail(String(response.status));
      const clockSkew = skewOf(response.headers.date, clock());
      const observed = { environment, operation: operation.name, status: response.status };
      const seconds = (monotonic() - startedAt) / 1000;
      metrics.gatewayResponded({ ...observed, seconds, ...(clockSkew === undefined ? {} : { clockSkew }) });
      return response;
    } finally {
      record.durations.gateway = (record.durations.gateway ?? 0) + (monotonic() - startedAt) / 1000;
    }
  }
}

/** The key for a request that must not be sent again. */
async function choose({ request, keys, patience }: Way): Promise<PaymentKey> {
  return isRetryable(request)
    ? { key: await keys.selectOnce(patience) }
    : await keys.selectForPayment(paymentOf(request), patience);
}

function patienceOf({ destination: { settings } }: ValidatedRequest, startedAt: number): Patience {
  return {
    deadline: startedAt + settings.timeouts.request,
    maxWaiting: Math.max(waiting.least, settings.maxInFlight * waiting.share),
  };
}

/** What the gateway rejects for one caller or path, such as an endpoint, it may accept for another one. */
function paymentOf({ record, destination: { operation, url } }: ValidatedRequest): Payment {
  return { operation: operation.name, place: `${record.caller ?? ''} ${url.pathname}` };
}

function isRetryable({ destination: { operation } }: ValidatedRequest): boolean {
  return operation.readOnly || operation.retryOn403;
}

function loginRefOf({ destination, login }: ValidatedRequest): LoginRef {
  return { environment: destination.environment, login };
}

/** Says whether a request may be sent again after a failure, which counts. */
function retryBudget(readOnly: boolean): (failure: UpstreamError) => boolean {
  // No byte was sent: safe for every operation.
  let notSent = 2;
  // A pooled connection was closed before a response: safe for read-only operations.
  let stalePooled = readOnly ? 1 : 0;
  return ({ written, stalePool, unreachable }) => {
    // The egress proxy would decide the same again.
    if (unreachable === 'proxy-denied' || unreachable === 'proxy-credentials') return false;
    if (!written) {
      notSent -= 1;
      return notSent >= 0;
    }
    stalePooled -= stalePool ? 1 : 0;
    return stalePool && stalePooled >= 0;
  };
}
