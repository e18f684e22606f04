import { LRUCache } from 'lru-cache';
import type { AuditLog } from '../../audit/audit-log.ts';
import { ProxyError } from '../../errors.ts';
import { endpointOf, type ReadOnlyQuery, readOnlyQuery } from '../../gateway/read-only-query.ts';
import { acceptsKey } from '../../gateway/response.ts';
import type { Routes } from '../../gateway/router.ts';
import type { KeySelector } from '../../keys/key-selector.ts';
import { type LoginRef, loginRefString } from '../../keys/login-ref.ts';
import type { Patience } from '../../keys/waiting.ts';
import { methods } from '../../oauth1/methods.ts';
import type { CanaryResult, EventObserver } from '../../observability/events.ts';
import type { RequestRecord } from '../../request-context.ts';
import type { SetTimer } from '../../util/clock.ts';
import { endsWithin } from '../../util/promises.ts';
import { unlimitedMemory } from '../limits.ts';
import type { SigningOptions, ValidatedRequest } from './signed-request.ts';
import type { GatewayResponse } from './upstream-request.ts';

interface CanaryOptions extends Pick<SigningOptions, 'monotonic' | 'nonce'> {
  readonly keySelector: KeySelector;
  readonly metrics: Pick<EventObserver, 'canarySent'>;
  /** Absent without an audit trail. */
  readonly audit?: AuditLog | undefined;
  /** Default: a timer of the process. */
  readonly setTimer?: SetTimer;
}

/** Milliseconds for which the result of a canary is valid. */
const interval = 500;
/** Maximum milliseconds that a payment waits for a canary. */
const maxWait = 2_000;
/** Milliseconds that a canary has to connect. */
const connectTimeout = 1_000;
/** One per login and signature method. For a forgotten one, the next payment sends another canary. */
const maxRuns = 1_000;

/** Sends a canary, signed with the key that the payment would be signed with, and with other keys after a 403. */
export type SendCanary = (request: ValidatedRequest) => Promise<GatewayResponse>;

/**
 * Sends a read-only query ahead of a payment while the ring holds a newer key than the last accepted one. If the
 * gateway has switched keys, the query gets the 403 that the payment would have got. Opt-in: `keys.rotation.canary`.
 */
export class Canaries {
  readonly #routes: Routes;
  readonly #options: CanaryOptions;
  readonly #runs = new LRUCache<string, { startedAt: number; done: Promise<unknown>; finished: boolean }>({
    max: maxRuns,
  });

  constructor(routes: Routes, options: CanaryOptions) {
    this.#routes = routes;
    this.#options = options;
  }

  /**
   * Resolves when the payment can be signed: after the canary's result, or without one after {@link maxWait}.
   *
   * @throws ProxyError `key-missing`, `key-unusable`, `key-source-unavailable`
   */
  async sendBefore(
    payment: ValidatedRequest,
    login: LoginRef,
    patience: Patience,
    send: SendCanary,
  ): Promise<void> {
    const { signature } = payment.destination.operation;
    const { keySelector, monotonic, setTimer } = this.#options;
    const keys = await keySelector.keysOf(login, methods[signature].kind, patience);
    if (!keys.isAwaitingNewest()) return;
    const id = `${loginRefString(login)}/${signature}`;
    const last = this.#runs.get(id);
    if (last?.finished === false) return void (await last.done);
    if (last !== undefined && monotonic() < last.startedAt + interval) return;
    const startedAt = monotonic();
    // A canary may wait for another request's trial or for the key source, longer than a payment should.
    const done = endsWithin(maxWait, this.#send(payment, login, send), setTimer);
    const run = { startedAt, done, finished: false };
    this.#runs.set(id, run);
    try {
      await done;
    } finally {
      run.finished = true;
    }
  }

  async #send({ record, destination }: ValidatedRequest, login: LoginRef, send: SendCanary): Promise<void> {
    const { config } = this.#routes;
    const endpoint = endpointOf(config, login) ?? config.environments[login.environment]?.canaryEndpoint;
    const subject = { ...login, endpoint, clientOrderId: `countersign-canary-${this.#options.nonce()}` };
    const query = readOnlyQuery(this.#routes, subject, destination.operation.signature);
    if (typeof query === 'string') return;
    const request = canaryRequest(query, login, record);
    let result: CanaryResult = 'failed';
    try {
      const { status, rest } = await send(request);
      rest?.destroy();
      if (status === 403) result = 'rejected';
      else if (request.record.rejection !== undefined) result = 'switched';
      else if (acceptsKey(status)) result = 'accepted';
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
    } finally {
      this.#options.metrics.canarySent(login.environment, result);
      this.#options.audit?.canaryFinished(request.record);
    }
  }
}

function canaryRequest(
  { destination, form }: ReadOnlyQuery,
  { login }: LoginRef,
  record: RequestRecord,
): ValidatedRequest {
  const { settings } = destination;
  const { connect, request } = settings.timeouts;
  const timeouts = { connect: Math.min(connect, connectTimeout), request: Math.min(request, maxWait) };
  return {
    // Of the payment nothing was sent yet.
    record: { ...record, isCanary: true, durations: {} },
    destination: { ...destination, settings: { ...settings, timeouts } },
    login,
    form,
    memory: unlimitedMemory(),
  };
}
