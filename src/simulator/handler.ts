import { randomUUID } from 'node:crypto';
import { type Fault, responseOf } from './faults.ts';
import { VerificationError, type VerificationFailure } from './rejections.ts';
import { htmlResponse, type SimulatorResponse } from './response.ts';
import type { Route } from './routes.ts';
import type { SimulatorState } from './state.ts';
import type { VerificationTrace } from './verification-trace.ts';
import type { VerifiedRequest } from './verified-request.ts';
import { type RawRequest, verifyRequest } from './verify.ts';

export interface HandlerOptions {
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

type Handler = (route: Route, received: RawRequest, trace: VerificationTrace) => Handled;

/** Creates the function from a received request to its response, independent of HTTP. */
export function createHandler(options: HandlerOptions, state: SimulatorState): Handler {
  const accept: Handler = (route, received, trace) => {
    const { operation } = route;
    const { login, keyIndex, form } = verifyRequest(received, route, state, trace);
    const { serialNumber = randomUUID } = options;
    const request = { login, path: received.path, form, serialNumber: serialNumber() };
    const { id: faultId, rule } = state.faults.take(operation, request) ?? {};
    if (rule?.fault === 'status-403') return { ...reject('fault-injected', operation), faultId, fault: rule };
    if (!rule?.beforeEffect) trace.begin('operation');
    const content = rule?.beforeEffect ? noEffect : route.respond(request, state);
    state.seen.add({ operation, login, keyIndex });
    const injected = rule?.beforeEffect ? undefined : options.fault?.(operation, request);
    const fault = injected ?? rule ?? {};
    return { content: responseOf(fault.fault) ?? content, fault, faultId: injected ? undefined : faultId };
  };

  function reject(rejection: VerificationFailure, operation: string): Handled {
    state.seen.add({ operation, rejection });
    options.onRejected?.(rejection, operation);
    const content = htmlResponse(403, 'Access is denied', { 'Simulator-Rejection': rejection });
    return { content, fault: {}, rejection };
  }

  return (route, received, trace) => {
    try {
      return accept(route, received, trace);
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      trace.fail(error);
      return reject(error.reason, route.operation);
    }
  };
}
