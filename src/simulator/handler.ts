import { randomUUID } from 'node:crypto';
import { type Fault, responseOf } from './faults.ts';
import { VerificationError, type VerificationFailure } from './rejections.ts';
import { htmlResponse, type SimulatorResponse } from './response.ts';
import type { Route } from './routes.ts';
import type { Scenario } from './scenario-schema.ts';
import type { SimulatorState } from './state.ts';
import type { VerificationTrace } from './verification-trace.ts';
import type { VerifiedRequest } from './verified-request.ts';
import { type RawRequest, verifyRequest } from './verify.ts';

export interface HandlerOptions {
  readonly scenario: Scenario;
  /** Generates the UUID of each request. */
  readonly serialNumber?: () => string;
  /** Called for every 403. */
  readonly onRejected?: (reason: VerificationFailure, operation: string) => void;
  /** Called for every accepted request, after it took effect; takes precedence over the other faults. */
  readonly fault?: (operation: string, request: VerifiedRequest) => Fault | undefined;
}

/** What a request without an effect would get; `reset` and `garbage` do not send it. */
const noEffect: SimulatorResponse = htmlResponse(500, 'No effect');

export interface Handled {
  readonly content: SimulatorResponse;
  readonly fault: Fault;
  readonly faultId?: number | undefined;
  readonly rejection?: VerificationFailure;
}

type Handler = (
  route: Route,
  received: RawRequest,
  path: VerifiedRequest['path'],
  trace: VerificationTrace,
) => Handled;

/** Creates the function from a received request to its response, independent of HTTP. */
export function createHandler(options: HandlerOptions, state: SimulatorState): Handler {
  const { scenario, serialNumber = randomUUID } = options;
  const { accounts, nonces, faults, ledger, seen } = state;
  const clock = state.clock.now;
  const context = { scenario, clock, ledger };
  const verifier = { clock, accounts, nonces, timestampWindowSeconds: scenario.timestampWindowSeconds };

  const accept: Handler = (route, received, path, trace) => {
    const { login, keyIndex, form } = verifyRequest(received, route, verifier, trace);
    const request = { login, path, form, serialNumber: serialNumber() };
    const { id: faultId, rule } = faults.take(route.operation, request) ?? {};
    if (rule?.fault === 'status-403') return { ...reject('fault-injected', route), faultId, fault: rule };
    const content = rule?.beforeEffect
      ? (responseOf(rule.fault) ?? noEffect)
      : trace.run('operation', () => route.respond(request, context));
    seen.add({ operation: route.operation, login, keyIndex });
    const fault = rule?.beforeEffect ? undefined : options.fault?.(route.operation, request);
    return fault === undefined ? { content, fault: rule ?? {}, faultId } : { content, fault };
  };

  function reject(rejection: VerificationFailure, { operation }: Route): Handled {
    seen.add({ operation, rejection });
    options.onRejected?.(rejection, operation);
    const content = htmlResponse(403, 'Access is denied', { 'Simulator-Rejection': rejection });
    return { content, fault: {}, rejection };
  }

  return (route, received, path, trace) => {
    try {
      return accept(route, received, path, trace);
    } catch (error) {
      if (error instanceof VerificationError) return reject(error.reason, route);
      throw error;
    }
  };
}
