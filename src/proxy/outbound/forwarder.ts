import { setTimeout as wait } from 'node:timers/promises';
import type { AuditLog } from '../../audit/audit-log.ts';
import { ProxyError } from '../../errors.ts';
import { sameKey } from '../../keys/key.ts';
import type { KeyUse, MutableUse, RetryPolicy } from '../../keys/key-history.ts';
import type { Patience, Verdict } from '../../keys/key-retry.ts';
import type { KeySelector, Payment, Probe } from '../../keys/key-selector.ts';
import type { LoginRef, UsableKey } from '../../keys/key-source.ts';
import { methods } from '../../oauth1/methods.ts';
import type { DecisionLog } from '../../observability/decision-log.ts';
import type { MetricsObserver } from '../../observability/metrics-observer.ts';
import { acceptsKey, addDuration, type UpstreamRecord } from '../../request-context.ts';
import type { Randomness } from '../../util/clock.ts';
import { auditedAttempt } from './audited-attempt.ts';
import type { Canaries } from './canary.ts';
import { isSkewed, skewOf } from './clock-skew.ts';
import { RetryBudget } from './retry-budget.ts';
import { type SigningOptions, signRequest, type ValidatedRequest } from './signed-request.ts';
import type { UpstreamClient } from './upstream-client.ts';
import { proxyErrorFor } from './upstream-failure.ts';
import { type GatewayResponse, type SignedHttpRequest, UpstreamError } from './upstream-request.ts';

export interface ForwarderOptions extends SigningOptions, Randomness {
  readonly keySelector: KeySelector;
  /** One per environment. */
  readonly upstreams: ReadonlyMap<string, UpstreamClient>;
  /** Sends canaries ahead of payments. Absent if that is not configured. */
  readonly canaries?: Canaries;
  readonly metrics: MetricsObserver;
  /** Absent without an audit trail. */
  readonly audit?: AuditLog;
  /** At log level `debug` only. */
  readonly decisions?: DecisionLog;
}

/** The part of an environment's `maxInFlight` that may wait for the keys of one login, and at least how many. */
const waiting = { share: 0.25, least: 10 };

type PlannedUse = MutableUse & { probe?: Probe };

/** Selects the key, signs and forwards a request. Retries only where that is safe. */
export class Forwarder {
  readonly #options: ForwarderOptions;

  constructor(options: ForwarderOptions) {
    this.#options = options;
  }

  /**
   * @throws ProxyError `key-*`, `audit-unavailable` or `overloaded`, or `gateway-*` if there is no response. Its outcome is that of the
   *   last attempt; the request's record has those of all attempts
   */
  async send(request: ValidatedRequest): Promise<GatewayResponse> {
    const startedAt = this.#options.monotonic();
    if (isRetryable(request)) return this.#send(request, 'retryable', startedAt);
    const patience = patienceOf(request, startedAt);
    await this.#options.canaries?.sendBefore(request, loginRefOf(request), patience, (canary) =>
      this.#send(canary, 'single-attempt', this.#options.monotonic()),
    );
    return this.#send(request, 'single-attempt', startedAt);
  }

  async #send(request: ValidatedRequest, policy: RetryPolicy, startedAt: number): Promise<GatewayResponse> {
    const patience = patienceOf(request, startedAt);
    const use = await this.#select(request, policy, patience);
    request.record.durations.key = (use.sentAt - startedAt) / 1000;
    try {
      return await this.#sendAndLearn(request, use, patience);
    } finally {
      use.probe?.end();
    }
  }

  async #select(request: ValidatedRequest, policy: RetryPolicy, patience: Patience): Promise<PlannedUse> {
    const { keySelector, monotonic } = this.#options;
    const { name: operation, signature } = request.destination.operation;
    const { kind } = methods[signature];
    const login = loginRefOf(request);
    const choice =
      policy === 'retryable' || isRetryable(request)
        ? { key: await keySelector.select(login, kind, policy, patience) }
        : await keySelector.selectForPayment(login, kind, paymentOf(request), patience);
    return { ...choice, operation, sentAt: monotonic() };
  }

  async #sendAndLearn(
    request: ValidatedRequest,
    use: PlannedUse,
    patience: Patience,
  ): Promise<GatewayResponse> {
    const { keySelector } = this.#options;
    const { record } = request;
    const login = loginRefOf(request);
    const response = await this.#sendWithRetries(request, use, patience);
    const verdict = this.#judge(response);
    if (verdict === 'accepted') keySelector.recordAccepted(login, use);
    if (response.status !== 403) return response;
    record.rejection = verdict === 'clock-skew' ? 'clock-skew' : 'current-key';
    if (isRetryable(request)) return this.#retryWithOtherKeys(request, use, response, patience);
    keySelector.recordRejected(login, use, verdict, paymentOf(request).place);
    return response;
  }

  /** @returns the last response */
  async #retryWithOtherKeys(
    request: ValidatedRequest,
    rejected: KeyUse,
    first: GatewayResponse,
    patience: Patience,
  ): Promise<GatewayResponse> {
    const login = loginRefOf(request);
    const { record } = request;
    const judge = (response: GatewayResponse): Verdict => this.#judge(response);
    let last = first;
    let written = record.writtenAttempts;
    const send = async (use: MutableUse): Promise<GatewayResponse> => {
      const response = await this.#sendWithRetries(request, use, patience);
      last.rest?.destroy();
      last = response;
      written = record.writtenAttempts;
      return response;
    };
    await this.#options.keySelector
      .retry(login, rejected, judge(first), { send, judge, patience })
      .catch((error: unknown) => {
        // The gateway has already responded. A retry that could not be sent must not hide that response.
        if (error instanceof ProxyError && record.writtenAttempts === written) return;
        last.rest?.destroy();
        throw error;
      });
    if (judge(last) === 'accepted') record.rejection = 'other-key';
    return last;
  }

  async #sendWithRetries(
    request: ValidatedRequest,
    use: PlannedUse,
    patience: Patience,
  ): Promise<GatewayResponse> {
    const { deadline } = patience;
    const { readOnly, name: operation } = request.destination.operation;
    const budget = new RetryBudget(readOnly);
    let dedicatedConnection = !readOnly;
    for (;;) {
      try {
        return await this.#sendOnce(
          request,
          await this.#sign(request, use, patience),
          dedicatedConnection,
          deadline,
        );
      } catch (failure) {
        if (!(failure instanceof UpstreamError)) throw failure;
        this.#recordUnreachable(request, failure);
        this.#options.decisions?.attemptFailed(operation, failure);
        const delay = 50 + 150 * this.#options.random();
        const timeLeft = this.#options.monotonic() + delay < deadline;
        if (!timeLeft || !budget.allows(failure)) throw proxyErrorFor(failure, request.destination);
        dedicatedConnection = true;
        this.#options.decisions?.retryScheduled(operation, delay);
        await wait(delay);
      }
    }
  }

  #recordUnreachable({ record, destination }: ValidatedRequest, { unreachable: cause }: UpstreamError): void {
    if (cause === undefined) return;
    const { environment, operation } = destination;
    record.unreachable = cause;
    this.#options.metrics.gatewayUnreachable({ environment, operation: operation.name, cause });
  }

  /**
   * Signs again if the key was replaced meanwhile: while a payment waits for its signature or a retry, the gateway
   * may switch to another key.
   */
  async #sign(request: ValidatedRequest, use: PlannedUse, patience: Patience): Promise<SignedHttpRequest> {
    const { keySelector, monotonic, decisions, audit } = this.#options;
    const login = loginRefOf(request);
    for (;;) {
      const startedAt = monotonic();
      decisions?.keySelected(login, use, keySelector.reasonFor(login, use.key));
      const { http, ...signature } = await signRequest(request, use.key, this.#options);
      // Before the check below, since the key may be replaced while the record is written.
      await audit?.intent(auditedAttempt(request, use.key, signature));
      recordKey(request.record, use.key);
      use.sentAt = monotonic();
      addDuration(request.record.durations, 'sign', (use.sentAt - startedAt) / 1000);
      if (isRetryable(request) || !keySelector.isOutdated(login, use)) return http;
      use.probe?.end();
      const { key, probe } = await keySelector.selectForPayment(
        login,
        use.key.kind,
        paymentOf(request),
        patience,
      );
      use.sentAt = monotonic(); // the selection may have waited for a trial
      if (probe === undefined) delete use.probe;
      else use.probe = probe;
      if (sameKey(key, use.key)) return http;
      use.key = key;
    }
  }

  #judge(response: GatewayResponse): Verdict {
    if (response.status === 403) return isSkewed(response, this.#options.clock()) ? 'clock-skew' : 'rejected';
    return acceptsKey(response.status) ? 'accepted' : 'unclear';
  }

  async #sendOnce(
    request: ValidatedRequest,
    signed: SignedHttpRequest,
    dedicatedConnection: boolean,
    deadline: number,
  ): Promise<GatewayResponse> {
    const { monotonic, upstreams, metrics, clock } = this.#options;
    const { record, destination, memory } = request;
    const { environment, settings, operation } = destination;
    const upstream = upstreams.get(environment);
    if (upstream === undefined) throw new TypeError(`no upstream for ${environment}`);
    const startedAt = monotonic();
    // Whole milliseconds, because Node keeps one list of timers per distinct duration.
    const remaining = Math.max(0, Math.ceil(deadline - startedAt));
    record.attempts += 1;
    try {
      const response = await upstream.send(signed, {
        dedicatedConnection,
        connect: Math.min(settings.timeouts.connect, remaining),
        total: remaining,
        memory,
        onConnected() {
          record.writtenAttempts = (record.writtenAttempts ?? 0) + 1;
        },
      });
      record.gatewayStatus = response.status;
      const clockSkew = skewOf(response.headers.date, clock());
      const observed = { environment, operation: operation.name, status: response.status };
      const seconds = (monotonic() - startedAt) / 1000;
      metrics.gatewayResponded({ ...observed, seconds, ...(clockSkew === undefined ? {} : { clockSkew }) });
      return response;
    } finally {
      addDuration(record.durations, 'gateway', (monotonic() - startedAt) / 1000);
    }
  }
}

function patienceOf({ destination: { settings } }: ValidatedRequest, startedAt: number): Patience {
  return {
    deadline: startedAt + settings.timeouts.request,
    maxWaiting: Math.max(waiting.least, settings.maxInFlight * waiting.share),
  };
}

/** What the gateway rejects for one caller or path, such as an endpoint, it may accept for another one. */
function paymentOf({ origin, destination: { operation, url } }: ValidatedRequest): Payment {
  return { operation: operation.name, place: `${origin.caller ?? ''} ${url.pathname}` };
}

function isRetryable({ destination: { operation } }: ValidatedRequest): boolean {
  return operation.readOnly || operation.retryOn403;
}

function loginRefOf({ destination, login }: ValidatedRequest): LoginRef {
  return { environment: destination.environment, login };
}

function recordKey(record: UpstreamRecord, { kind, version, fingerprint }: UsableKey): void {
  record.keyKind = kind;
  record.keyVersion = version;
  if (fingerprint !== undefined) record.keyFingerprint = fingerprint;
}
