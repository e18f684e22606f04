import type { Config } from '../../config/schema.ts';
import { ProxyError } from '../../errors.ts';
import { endpointOf, type ReadOnlyQuery, readOnlyQuery } from '../../gateway/read-only-query.ts';
import type { KeySelector } from '../../keys/key-selector.ts';
import type { LoginRef } from '../../keys/key-source.ts';
import { loginRefString } from '../../keys/login-ref.ts';
import { methods } from '../../oauth1/methods.ts';
import type { CanaryResult, MetricsObserver } from '../../observability/metrics-observer.ts';
import { createUpstreamRecord } from '../../request-context.ts';
import { type SetTimer, setTimer } from '../../util/timer.ts';
import { unlimitedMemory } from '../memory-budget.ts';
import type { ValidatedRequest } from './signed-request.ts';
import type { GatewayResponse } from './upstream-request.ts';

export interface CanaryOptions {
  readonly keySelector: KeySelector;
  readonly metrics: Pick<MetricsObserver, 'canarySent'>;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** 128 random bits as text. */
  readonly nonce: () => string;
  /** Timers of the process unless a test brings its own. */
  readonly setTimer?: SetTimer;
}

/** Milliseconds after which a canary tells nothing any more. */
const interval = 500;
/** Milliseconds that a payment waits for one, whatever the canary itself waits for. */
const longestWait = 2_000;
/** Milliseconds until it is connected. */
const connectTimeout = 1_000;

interface CanaryRun {
  readonly startedAt: number;
  readonly done: Promise<void>;
  finished: boolean;
}

/** Sends with the key that a payment would be signed with, and with others after a 403. */
export type SendCanary = (errand: ValidatedRequest) => Promise<GatewayResponse>;

/**
 * Sends a read-only query ahead of a payment while the ring holds a newer key than the one accepted last: it
 * gets the 403 that the payment would have got when the gateway has switched. Opt-in: `keys.rotation.canary`.
 */
export class Canaries {
  readonly #config: Config;
  readonly #ports: CanaryOptions;
  readonly #flights = new Map<string, CanaryRun>();

  constructor(config: Config, ports: CanaryOptions) {
    this.#config = config;
    this.#ports = ports;
  }

  /**
   * Resolves when the payment can be signed; without a result of the canary it is.
   *
   * @throws Refusal `key-missing`, `key-unusable`, `key-source-unavailable`
   */
  async sendBefore(payment: ValidatedRequest, address: LoginRef, send: SendCanary): Promise<void> {
    const { signature } = payment.destination.operation;
    const { keySelector: rotation, monotonic } = this.#ports;
    if (!(await rotation.isAwaitingNewest(address, methods[signature].kind))) return;
    const last = this.#flights.get(`${loginRefString(address)}/${signature}`);
    if (last?.finished === false) return last.done;
    if (last !== undefined && monotonic() < last.startedAt + interval) return;
    const beganAt = monotonic();
    const end = this.#inTime(this.#send(payment, address, send));
    const flight: CanaryRun = { startedAt: beganAt, done: end, finished: false };
    this.#flights.set(`${loginRefString(address)}/${signature}`, flight);
    try {
      await end;
    } finally {
      flight.finished = true;
    }
  }

  /** A canary may wait for the trial of another request, or for the key source, longer than a payment should. */
  async #inTime(canary: Promise<void>): Promise<void> {
    const overdue = Promise.withResolvers<void>();
    const cancel = (this.#ports.setTimer ?? setTimer)(overdue.resolve, longestWait);
    try {
      await Promise.race([canary, overdue.promise]);
    } finally {
      cancel();
    }
  }

  async #send({ destination }: ValidatedRequest, address: LoginRef, send: SendCanary): Promise<void> {
    const query = this.#queryFor(address, destination.operation.signature);
    if (query === undefined) return;
    const errand = canaryRequest(query, address);
    let result: CanaryResult = 'failed';
    try {
      const { status, rest } = await send(errand);
      rest?.destroy();
      if (status === 403) result = 'rejected';
      else if (errand.record.rejection !== undefined) result = 'switched';
      else if (status < 500) result = 'accepted';
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
    } finally {
      this.#ports.metrics.canarySent(address.environment, result);
    }
  }

  #queryFor(
    address: LoginRef,
    signature: ValidatedRequest['destination']['operation']['signature'],
  ): ReadOnlyQuery | undefined {
    const { canaryEndpoint } = this.#config.environments[address.environment] ?? {};
    const endpoint = endpointOf(this.#config, address) ?? canaryEndpoint;
    const about = { ...address, endpoint, clientOrderId: `countersign-canary-${this.#ports.nonce()}` };
    const query = readOnlyQuery(this.#config, about, signature);
    return typeof query === 'string' ? undefined : query;
  }
}

function canaryRequest({ destination, form }: ReadOnlyQuery, { login }: LoginRef): ValidatedRequest {
  const { settings } = destination;
  const { connect, request } = settings.timeouts;
  const bounded = {
    connect: Math.min(connect, connectTimeout),
    request: Math.min(request, longestWait),
  };
  return {
    record: createUpstreamRecord(),
    destination: { ...destination, settings: { ...settings, timeouts: bounded } },
    login,
    form,
    memory: unlimitedMemory().reservation(),
  };
}
