import { setTimeout as wait } from 'node:timers/promises';
import { ProxyError } from '../../errors.ts';
import { sameKey } from '../../keys/key.ts';
import type { KeyUse, MutableUse, RetryPolicy } from '../../keys/key-history.ts';
import type { Verdict } from '../../keys/key-retry.ts';
import type { KeySelector } from '../../keys/key-selector.ts';
import type { LoginRef, UsableKey } from '../../keys/key-source.ts';
import { methods } from '../../oauth1/methods.ts';
import type { MetricsObserver } from '../../observability/metrics-observer.ts';
import type { UpstreamRecord } from '../../request-context.ts';
import type { Canaries } from './canary.ts';
import { isSkewed, skewOf } from './clock-skew.ts';
import { type SigningOptions, signRequest, type ValidatedRequest } from './signed-request.ts';
import type { UpstreamClient } from './upstream-client.ts';
import { proxyErrorFor } from './upstream-failure.ts';
import { type GatewayResponse, type SignedHttpRequest, UpstreamError } from './upstream-request.ts';

export interface ForwarderOptions extends SigningOptions {
  readonly keySelector: KeySelector;
  /** One per environment. */
  readonly upstreams: ReadonlyMap<string, UpstreamClient>;
  /** Where payments are to be preceded by one. */
  readonly canaries?: Canaries;
  readonly metrics: MetricsObserver;
  /** 0 to 1. */
  readonly random: () => number;
}

/** What may be sent again, and how often. */
interface RetryBudget {
  /** No byte was written: safe for every operation. */
  notSent: number;
  /** A pooled connection broke before a reply: safe for reads. */
  stalePooled: number;
}

/** Takes the key, signs, forwards; again only where that is safe. */
export class Forwarder {
  readonly #ports: ForwarderOptions;

  constructor(ports: ForwarderOptions) {
    this.#ports = ports;
  }

  /**
   * @throws Refusal for a key that cannot be had, for `overloaded`, and for every way in which no answer came;
   *   its outcome is that of the attempt that failed, while the exchange counts those that wrote something
   */
  async send(errand: ValidatedRequest): Promise<GatewayResponse> {
    const startedAt = this.#ports.monotonic();
    if (isRetryable(errand)) return this.#send(errand, 'retryable', startedAt);
    await this.#ports.canaries?.sendBefore(errand, loginRefOf(errand), (canary) =>
      this.#send(canary, 'single-attempt', this.#ports.monotonic()),
    );
    return this.#send(errand, 'single-attempt', startedAt);
  }

  async #send(errand: ValidatedRequest, manner: RetryPolicy, startedAt: number): Promise<GatewayResponse> {
    const { keySelector: rotation, monotonic } = this.#ports;
    const { record, destination } = errand;
    const { operation, settings } = destination;
    const address = loginRefOf(errand);
    const choice = rotation.select(address, methods[operation.signature].kind, manner);
    const key = await withTimeout(choice, settings.timeouts.request, address);
    record.durations.key = (monotonic() - startedAt) / 1000;
    const endsAt = startedAt + settings.timeouts.request;
    const use = { key, operation: operation.name, sentAt: monotonic() };
    const reply = await this.#sendWithRetries(errand, use, endsAt);
    const verdict = this.#judge(reply);
    if (verdict === 'accepted') rotation.recordAccepted(address, use);
    if (reply.status !== 403) return reply;
    record.rejection = verdict === 'clock-skew' ? 'clock-skew' : 'current-key';
    if (isRetryable(errand)) return this.#retryWithOtherKeys(errand, use, reply, endsAt);
    rotation.recordRejected(address, use, verdict);
    return reply;
  }

  /** With other keys; the last response counts. */
  async #retryWithOtherKeys(
    errand: ValidatedRequest,
    rejected: KeyUse,
    first: GatewayResponse,
    endsAt: number,
  ): Promise<GatewayResponse> {
    const address = loginRefOf(errand);
    const { record } = errand;
    const judge = (reply: GatewayResponse): Verdict => this.#judge(reply);
    let last = first;
    let written = record.writtenAttempts;
    const send = async (use: MutableUse): Promise<GatewayResponse> => {
      const reply = await this.#sendWithRetries(errand, use, endsAt);
      last.rest?.destroy();
      last = reply;
      written = record.writtenAttempts;
      return reply;
    };
    const isOverdue = (): boolean => this.#ports.monotonic() >= endsAt;
    await this.#ports.keySelector
      .retry(address, rejected, judge(first), { send, judge, isOverdue })
      .catch((error: unknown) => {
        // That a later request could not be sent must not hide what the gateway has answered.
        if (error instanceof ProxyError && record.writtenAttempts === written) return;
        last.rest?.destroy();
        throw error;
      });
    if (judge(last) === 'accepted') record.rejection = 'other-key';
    return last;
  }

  async #sendWithRetries(
    errand: ValidatedRequest,
    use: MutableUse,
    endsAt: number,
  ): Promise<GatewayResponse> {
    const budget: RetryBudget = { notSent: 2, stalePooled: errand.destination.operation.readOnly ? 1 : 0 };
    let ownConnection = !errand.destination.operation.readOnly;
    for (;;) {
      try {
        return await this.#sendOnce(errand, await this.#sign(errand, use), ownConnection, endsAt);
      } catch (failure) {
        if (!(failure instanceof UpstreamError)) throw failure;
        this.#noteUnreachable(errand, failure);
        const delay = 50 + 150 * this.#ports.random();
        const timeLeft = this.#ports.monotonic() + delay < endsAt;
        if (!timeLeft || !shouldRetry(failure, budget)) throw proxyErrorFor(failure, errand.destination);
        ownConnection = true;
        await wait(delay);
      }
    }
  }

  #noteUnreachable({ record, destination }: ValidatedRequest, { unreachable: cause }: UpstreamError): void {
    if (cause === undefined) return;
    const { environment, operation } = destination;
    record.unreachable = cause;
    this.#ports.metrics.gatewayUnreachable({ environment, operation: operation.name, cause });
  }

  /** While a payment waits for its signature or for another connection, the gateway may change the key. */
  async #sign(errand: ValidatedRequest, use: MutableUse): Promise<SignedHttpRequest> {
    const { keySelector: rotation, monotonic } = this.#ports;
    const address = loginRefOf(errand);
    for (;;) {
      const startedAt = monotonic();
      recordKey(errand.record, use.key);
      const post = await signRequest(errand, use.key, this.#ports);
      use.sentAt = monotonic();
      const { durations } = errand.record;
      durations.sign = (durations.sign ?? 0) + (use.sentAt - startedAt) / 1000;
      if (isRetryable(errand) || !rotation.isOutdated(address, use.key)) return post;
      const key = await rotation.select(address, use.key.kind, 'single-attempt');
      if (sameKey(key, use.key)) return post;
      use.key = key;
    }
  }

  /** A server error says nothing about the key. */
  #judge(reply: GatewayResponse): Verdict {
    if (reply.status === 403) return isSkewed(reply, this.#ports.clock()) ? 'clock-skew' : 'rejected';
    return reply.status === 401 || reply.status >= 500 ? 'unclear' : 'accepted';
  }

  async #sendOnce(
    errand: ValidatedRequest,
    post: SignedHttpRequest,
    ownConnection: boolean,
    endsAt: number,
  ): Promise<GatewayResponse> {
    const { monotonic, upstreams: forwarders, metrics: meter, clock } = this.#ports;
    const { record, destination, memory } = errand;
    const { environment, settings, operation } = destination;
    const forwarder = forwarders.get(environment);
    if (forwarder === undefined) throw new TypeError(`no forwarder for ${environment}`);
    const startedAt = monotonic();
    // Whole milliseconds: Node keeps a list of timers for every duration there is.
    const left = Math.max(0, Math.ceil(endsAt - startedAt));
    record.attempts += 1;
    try {
      const reply = await forwarder.send(post, {
        dedicatedConnection: ownConnection,
        connect: Math.min(settings.timeouts.connect, left),
        total: left,
        memory,
        onConnected() {
          record.writtenAttempts = (record.writtenAttempts ?? 0) + 1;
        },
      });
      record.gatewayStatus = reply.status;
      const clockSkew = skewOf(reply.headers.date, clock());
      const seen = { environment, operation: operation.name, status: reply.status };
      const seconds = (monotonic() - startedAt) / 1000;
      meter.gatewayResponded({ ...seen, seconds, ...(clockSkew === undefined ? {} : { clockSkew }) });
      return reply;
    } finally {
      record.durations.gateway = (record.durations.gateway ?? 0) + (monotonic() - startedAt) / 1000;
    }
  }
}

/** A key source that is slow must not hold a caller for longer than the gateway may. */
async function withTimeout<T>(work: Promise<T>, deadline: number, { login }: LoginRef): Promise<T> {
  const overdue = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const detail = `The keys of login "${login}" did not come within ${deadline / 1000} s. Send the request again later.`;
    overdue.reject(new ProxyError('key-source-unavailable', detail, { retryAfter: 5 }));
  }, deadline);
  try {
    return await Promise.race([work, overdue.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function isRetryable({ destination: { operation } }: ValidatedRequest): boolean {
  return operation.readOnly || operation.retryOn403;
}

function loginRefOf({ destination, login }: ValidatedRequest): LoginRef {
  return { environment: destination.environment, login };
}

function shouldRetry(failure: UpstreamError, budget: RetryBudget): boolean {
  if (!failure.written) {
    budget.notSent -= 1;
    return budget.notSent >= 0;
  }
  budget.stalePooled -= failure.stalePool ? 1 : 0;
  return failure.stalePool && budget.stalePooled >= 0;
}

function recordKey(record: UpstreamRecord, { kind, version, fingerprint }: UsableKey): void {
  record.keyKind = kind;
  record.keyVersion = version;
  if (fingerprint !== undefined) record.keyFingerprint = fingerprint;
}
