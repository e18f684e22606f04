import { randomUUID } from 'node:crypto';
import type { ErrorRequestHandler, Express, Request, Response } from 'express';
import express from 'express';
import { deliver, type Fault, statusFaults } from './faults.ts';
import { entryOf, type Handled, type HandledRequest, VerificationTrace } from './journal.ts';
import { VerificationError, type VerificationFailure } from './rejections.ts';
import { controlRejection, htmlResponse, writeResponse } from './response.ts';
import { type Route, routesOf } from './routes.ts';
import { createState, type SimulatorState, type StateOptions } from './state.ts';
import type { VerifiedRequest } from './verified-request.ts';
import { receivedFrom, verifyRequest } from './verify.ts';

export interface SimulatorOptions extends StateOptions {
  /** Generates the UUID of each request. */
  readonly serialNumber?: () => string;
  /** Called for every request, with what the journal has of it. */
  readonly onHandled?: (request: HandledRequest) => void;
  /** Called for every accepted request, after it took effect; takes precedence over the other faults. */
  readonly fault?: (operation: string, request: VerifiedRequest) => Fault | undefined;
}

/** The simulated gateway of one environment. */
export type Simulator = ReturnType<typeof createSimulator>;

/**
 * Simulates the gateway (docs/gateway-interface.md) for the built-in operations and those of the scenario. Responses that
 * the interface does not describe carry `Simulator-Undocumented: true`.
 */
export function createSimulator(options: SimulatorOptions) {
  const state = createState(options);
  const routes = routesOf(options.scenario);
  /** Names of the operations that are served. */
  const operations = routes.map(({ operation }) => operation.name);
  return { ...state, app: createApp(options, state, routes), operations };
}

const maxBodyBytes = 1_048_576;

function createApp(options: SimulatorOptions, state: SimulatorState, routes: readonly Route[]): Express {
  const record = (request: Request, trace: VerificationTrace, handled: Handled, operation?: string) => {
    const entry = entryOf(request, trace, handled, options.clock(), operation);
    state.journal.record(entry);
    options.onHandled?.(entry);
  };
  const serve = (route: Route) => async (request: Request, response: Response) => {
    const trace = new VerificationTrace();
    const handled = handle(route, request, trace, state, options);
    record(request, trace, handled, route.operation.name);
    await deliver(response, handled);
  };
  const reject = (request: Request, response: Response, status: number, text: string) => {
    const content = htmlResponse(status, text);
    record(request, new VerificationTrace(), { content });
    writeResponse(response, content);
  };
  /** For a body that is too large, compressed or truncated, or a path that cannot be decoded. Undocumented. */
  const onUnreadable: ErrorRequestHandler = (error: { status?: unknown }, request, response, next) => {
    if (typeof error.status !== 'number' || response.headersSent) return next(error);
    return reject(request, response, error.status, 'The request is not readable');
  };

  const app = express().disable('x-powered-by').enable('case sensitive routing').enable('strict routing');
  app.use((_request, response, next) => {
    response.setHeader('Date', new Date(state.clock.now()).toUTCString());
    next();
  });
  const readBody = express.raw({ type: () => true, inflate: false, limit: maxBodyBytes });
  for (const route of routes) app.post(route.path, readBody, serve(route));
  app.use((request, response) => reject(request, response, 404, 'Not found'));
  app.use(onUnreadable);
  return app;
}

/** What a request without an effect would get; `reset` does not send it. */
const noEffect = htmlResponse(500, 'No effect');

/** Verifies a request, and lets it take effect unless a fault comes before that. */
function handle(
  route: Route,
  httpRequest: Request,
  trace: VerificationTrace,
  state: SimulatorState,
  { serialNumber = randomUUID, fault: faultOf }: SimulatorOptions,
): Handled {
  const { name: operation } = route.operation;
  try {
    const received = receivedFrom(httpRequest);
    const { login, form } = verifyRequest(received, route.operation, state, trace);
    const request = { login, path: received.path, form, serialNumber: serialNumber() };
    const rule = state.faults.take(operation, request);
    if (rule?.fault === 'status-403') return { ...rejected('fault-injected'), fault: rule };
    if (!rule?.beforeEffect) trace.begin('operation');
    const content = rule?.beforeEffect ? noEffect : route.respond(request, state);
    const injected = rule?.beforeEffect ? undefined : faultOf?.(operation, request);
    const fault = injected ?? rule ?? {};
    return { content: statusFaults.get(fault.fault) ?? content, fault };
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    trace.fail(error);
    if (route.operation.signature !== 'SHA1-control') return rejected(error.reason);
    return { rejection: error.reason, content: controlRejection(error.reason, serialNumber()) };
  }
}

function rejected(rejection: VerificationFailure): Handled {
  const content = htmlResponse(403, 'Access is denied', { 'Simulator-Rejection': rejection });
  return { content, rejection };
}
