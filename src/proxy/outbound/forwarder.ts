import { setTimeout as wait } from 'node:timers/promises';
import type { AuditLog } from '../../audit/audit-log.ts';
import { ProxyError } from '../../errors.ts';
import { orderMismatchOf } from '../../gateway/order-mismatch.ts';
import { formIn, notableSkew, skewOf, testimonyOf } from '../../gateway/response.ts';
import { sameKey, type UsableKey } from '../../keys/ring.ts';
import type { KeyRequest, KeySelector, Send, Sent } from '../../keys/selector.ts';
import { methods } from '../../oauth1/methods.ts';
import type { DebugLog } from '../../observability/debug-log.ts';
import type { EventObserver } from '../../observability/events.ts';
import { inSpan, type Span, serverAttributes } from '../../trace.ts';
import type { Randomness } from '../../util/clock.ts';
import { recordKey, type SigningOptions, signRequest, type ValidatedRequest } from './signed-request.ts';
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

/** Selects the key, signs and forwards a request. Retries only where that is safe. */
export class Forwarder {
  readonly #options: ForwarderOptions;

  constructor(options: ForwarderOptions) {
    this.#options = options;
  }

  /**
   * @throws ProxyError `key-*`, `signing-unavailable`, `audit-unavailable` or `overloaded`, or `gateway-*` if there is no
   *   response. Its outcome is that of the last attempt; the request's record has those of all attempts
   */
  async send(request: ValidatedRequest): Promise<GatewayResponse> {
    const { monotonic, keySelector } = this.#options;
    const { record, destination } = request;
    const startedAt = monotonic();
    const keyed = keyRequestOf(request, startedAt);
    record.keyKind = keyed.kind;
    let last: Sent<GatewayResponse> | undefined;
    let written: number | undefined;
    const sendWith: Send<GatewayResponse> = async (keyNow) => {
      record.durations.key ??= (monotonic() - startedAt) / 1000;
      written = record.writtenAttempts;
      const sent = await this.#signAndSend(request, keyed, keyNow);
      last?.response.rest?.destroy();
      last = sent;
      this.#recordTestimony(request, sent);
      return sent;
    };
    const { readOnly, retryOn403 } = destination.operation;
    try {
      if (readOnly || retryOn403) return await keySelector.query(keyed, sendWith);
      return await keySelector.payment(keyed, sendWith);
    } catch (error) {
      // The gateway has already responded. A retry that could not be sent must not hide that response.
      if (last !== undefined && error instanceof ProxyError && record.writtenAttempts === written) {
        recordKey(record, last.key);
        return last.response;
      }
      last?.response.rest?.destroy();
      throw error;
    }
  }

  /** Signs with the key, sends, and does both again after a failure if that is safe. */
  async #signAndSend(
    request: ValidatedRequest,
    keyed: KeyRequest,
    keyNow: () => UsableKey,
  ): Promise<Sent<GatewayResponse>> {
    const { deadline } = keyed;
    const { environment } = request.destination;
    const { readOnly, name: operation } = request.destination.operation;
    let mayRetry: ReturnType<typeof retryBudget> | undefined;
    let dedicatedConnection = !readOnly;
    for (;;) {
      try {
        const { http, key } = await this.#sign(request, keyed, keyNow);
        const sentAt = this.#options.monotonic();
        const response = await inSpan('upstream request', (span) =>
          this.#attempt(request, http, dedicatedConnection, deadline, span),
        );
        return { response, testimony: testimonyOf(response, request.destination.operation), key, sentAt };
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

  /** Signs again if the key was replaced meanwhile, while the request waited for its signature. */
  async #sign(
    request: ValidatedRequest,
    { login }: KeyRequest,
    keyNow: () => UsableKey,
  ): Promise<{ http: SignedHttpRequest; key: UsableKey }> {
    const { monotonic, decisions, audit } = this.#options;
    const { record, destination } = request;
    const { signature: method, name: operation } = destination.operation;
    let key = keyNow();
    for (;;) {
      const startedAt = monotonic();
      decisions?.keySelected(login, operation, key);
      const signature = await inSpan('signature', (span) => {
        span?.add({
          'countersign.key.kind': key.kind,
          'countersign.key.version': key.version,
          'countersign.signer': 'publicKey' in key.key ? 'transit' : 'process',
          'countersign.signature.method': method,
        });
        return signRequest(request, key, this.#options);
      });
      // Before the check below, since the key may be replaced while the record is written.
      const recorded = audit?.intent({ request, key, signature });
      if (recorded !== undefined) await inSpan('audit record', () => recorded);
      recordKey(record, key);
      record.durations.sign = (record.durations.sign ?? 0) + (monotonic() - startedAt) / 1000;
      const next = keyNow();
      if (sameKey(key, next)) return { http: signature.http, key };
      key = next;
    }
  }

  /** What the response says about the key, and why the gateway rejected one: if another one helps, that is why. */
  #recordTestimony({ record }: ValidatedRequest, { response, testimony }: Sent<GatewayResponse>): void {
    record.keyRejected = testimony === 'silent' ? undefined : testimony === 'rejected';
    if (record.keyRejected === true) {
      const skew = Math.abs(response.clockSkew ?? 0);
      record.rejection ??= skew > notableSkew ? 'clock-skew' : 'current-key';
    } else if (record.keyRejected === false && record.rejection !== undefined) {
      record.rejection = 'other-key';
    }
  }

  async #attempt(
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
    const sentAt = clock();
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
        readOnly: operation.readOnly,
        memory,
        onConnected() {
          record.writtenAttempts = (record.writtenAttempts ?? 0) + 1;
          span?.mark('connected');
        },
      });
      record.gatewayStatus = response.status;
      span?.add({ 'http.response.status_code': response.status });
      if (response.status >= 400) span?.fail(String(response.status));
      const clockSkew = skewOf(response.headers.date, { sentAt, receivedAt: clock() });
      const { status } = response;
      const seconds = (monotonic() - startedAt) / 1000;
      metrics.gatewayResponded({ environment, operation: operation.name, status, seconds, clockSkew });
      const form = formIn(response);
      record.orderMismatch = form && orderMismatchOf(request.form, form);
      return { ...response, form, clockSkew };
    } finally {
      record.durations.gateway = (record.durations.gateway ?? 0) + (monotonic() - startedAt) / 1000;
    }
  }
}

/** @param startedAt monotonic, milliseconds */
export function keyRequestOf(
  { record, destination, login }: Pick<ValidatedRequest, 'record' | 'destination' | 'login'>,
  startedAt: number,
): KeyRequest {
  const { environment, operation, settings, values } = destination;
  return {
    login: { environment, login },
    kind: methods[operation.signature].kind,
    caller: record.caller ?? '',
    endpoint: values.endpoint ?? values.endpointGroup ?? '',
    readOnly: operation.readOnly,
    deadline: startedAt + settings.timeouts.request,
    maxInFlight: settings.maxInFlight,
  };
}

/** Says whether a request may be sent again after a failure, which counts. */
function retryBudget(readOnly: boolean): (failure: UpstreamError) => boolean {
  // No byte was sent: safe for every operation.
  let notSent = 2;
  return ({ written, stalePool, unreachable }) => {
    // The egress proxy would decide the same again.
    if (unreachable === 'proxy-denied' || unreachable === 'proxy-credentials') return false;
    // A pooled connection was closed before a response: safe for a read-only operation. The next one is not pooled.
    if (written) return stalePool && readOnly;
    notSent -= 1;
    return notSent >= 0;
  };
}
