import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { deliver } from './faults.ts';
import { createHandler, type HandlerOptions } from './handler.ts';
import { operationEntry, type RequestHead, unroutedEntry } from './journal-entry.ts';
import { pathOf, receivedFrom } from './raw-request.ts';
import { htmlResponse, writeResponse } from './response.ts';
import { type Route, routesOf } from './routes.ts';
import { SimulatorState, type StateOptions } from './state.ts';
import { VerificationTrace } from './verification-trace.ts';

export interface SimulatorOptions extends HandlerOptions, StateOptions {}

/** The simulated gateway of one environment. */
export interface Simulator
  extends Pick<SimulatorState, 'accounts' | 'clock' | 'faults' | 'journal' | 'seen' | 'reset'> {
  readonly app: Express;
  /** Names of the operations that are served. */
  readonly operations: readonly string[];
}

const maxBodyBytes = 1_048_576;

/**
 * Simulates the gateway (docs/gateway-interface.md) for the built-in operations and those of the scenario. Responses that
 * the interface does not describe carry `Simulator-Undocumented: true`. Does not listen.
 */
export function createSimulator(options: SimulatorOptions): Simulator {
  const state = new SimulatorState(options);
  const { accounts, clock, faults, journal, seen } = state;
  return {
    app: createApp(options, state),
    accounts,
    clock,
    faults,
    journal,
    operations: routesOf(options.scenario).map(({ operation }) => operation),
    seen,
    reset: (parts) => state.reset(parts),
  };
}

function createApp(options: SimulatorOptions, state: SimulatorState): Express {
  const handle = createHandler(options, state);
  const headOf = ({ method, path }: Request): RequestHead => ({ method, path, now: options.clock() });
  const reject = (request: Request, response: Response, status: number, text: string) => {
    state.journal.record(unroutedEntry(headOf(request), status));
    writeResponse(response, htmlResponse(status, text));
  };
  const serve = (route: Route) => async (request: Request, response: Response) => {
    const trace = new VerificationTrace();
    const handled = handle(route, receivedFrom(request), pathOf(request), trace);
    state.journal.record(operationEntry(headOf(request), route.operation, trace, handled));
    await deliver(response, handled.content, handled.fault);
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
  for (const route of routesOf(options.scenario)) app.post(route.path, readBody, serve(route));
  app.use((request, response) => reject(request, response, 404, 'Not found'));
  app.use(onUnreadable);
  return app;
}
