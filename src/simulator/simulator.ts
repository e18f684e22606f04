import { randomUUID } from 'node:crypto';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { Accounts } from './accounts.ts';
import { deliver, type Fault, scriptedFault } from './faults.ts';
import { Ledger } from './ledger.ts';
import { NonceMemory } from './nonces.ts';
import { pathOf, receivedFrom } from './raw-request.ts';
import { RequestCounter } from './request-counter.ts';
import { htmlResponse, type SimulatorResponse, writeResponse } from './response.ts';
import { type Route, routesOf } from './routes.ts';
import type { Scenario } from './scenario-schema.ts';
import type { GatewayKeys } from './signature.ts';
import { VerificationError, type VerificationFailure } from './verification-error.ts';
import type { VerifiedRequest } from './verified-request.ts';
import { type RawRequest, verifyRequest } from './verify.ts';

export interface SimulatorOptions {
  readonly scenario: Scenario;
  /** The keys that are accepted for each login at first. */
  readonly keys: ReadonlyMap<string, GatewayKeys>;
  /** Milliseconds since 1970; the `Date` header follows it. */
  readonly clock: () => number;
  /** Generates the UUID of each request. */
  readonly serialNumber?: () => string;
  /** Called for every 403; `operation` is the name of a built-in operation. */
  readonly onRejected?: (reason: VerificationFailure, operation: string) => void;
  /** Called for every accepted request, after it took effect; takes precedence over the scenario's faults. */
  readonly fault?: (operation: string, request: VerifiedRequest) => Fault | undefined;
}

/** The simulated gateway of one environment. */
export interface Simulator {
  readonly app: Express;
  /** Counts received requests. */
  readonly seen: RequestCounter;
  /** Keys and blocked logins; may change while requests are in flight. */
  readonly accounts: Accounts;
}

const capacity = { nonces: 200_000, orders: 1000, responses: 10_000 };
const maxBodyBytes = 1_048_576;

/**
 * Simulates the gateway (docs/gateway-interface.md) for the five built-in operations. Responses that the interface does
 * not show carry `Simulator-Undocumented: true`. Does not listen.
 */
export function createSimulator(options: SimulatorOptions): Simulator {
  const { scenario, clock } = options;
  const accounts = new Accounts(scenario.logins, options.keys);
  const seen = new RequestCounter();
  const handle = createHandler(options, accounts, seen);

  const app = express().disable('x-powered-by').enable('case sensitive routing').enable('strict routing');
  app.use((_request, response, next) => {
    response.setHeader('Date', new Date(clock()).toUTCString());
    next();
  });
  const readBody = express.raw({ type: () => true, inflate: false, limit: maxBodyBytes });
  const serve = (route: Route) => async (request: Request, response: Response) => {
    const { content, fault } = handle(route, receivedFrom(request), pathOf(request));
    await deliver(response, content, fault);
  };
  for (const route of routesOf(scenario)) app.post(route.path, readBody, serve(route));
  app.use((_request, response) => writeResponse(response, htmlResponse(404, 'Not found')));
  app.use(onUnreadable);
  return { app, seen, accounts };
}

interface Handled {
  readonly content: SimulatorResponse;
  readonly fault: Fault;
}

type Handler = (route: Route, received: RawRequest, path: VerifiedRequest['path']) => Handled;

/** Creates the function from a received request to its response, independent of HTTP. */
function createHandler(options: SimulatorOptions, accounts: Accounts, seen: RequestCounter): Handler {
  const { scenario, clock, serialNumber = randomUUID } = options;
  const context = { scenario, clock, ledger: new Ledger(scenario.orders, capacity) };
  const nonces = new NonceMemory(capacity.nonces);
  const verifier = { clock, accounts, nonces, timestampWindowSeconds: scenario.timestampWindowSeconds };

  function accept(route: Route, received: RawRequest, path: VerifiedRequest['path']): Handled {
    const { login, keyIndex, form } = verifyRequest(received, route, verifier);
    const request = { login, path, form, serialNumber: serialNumber() };
    const content = route.respond(request, context);
    seen.add({ operation: route.operation, login, keyIndex });
    const fault =
      options.fault?.(route.operation, request) ?? scriptedFault(route.operation, request, scenario);
    return { content, fault };
  }

  function reject({ reason }: VerificationError, { operation }: Route): Handled {
    seen.add({ operation, rejection: reason });
    options.onRejected?.(reason, operation);
    return { content: htmlResponse(403, 'Access is denied', { 'Simulator-Rejection': reason }), fault: {} };
  }

  return (route, received, path) => {
    try {
      return accept(route, received, path);
    } catch (error) {
      if (error instanceof VerificationError) return reject(error, route);
      throw error;
    }
  };
}

/** For a body that is too large, compressed or truncated, or a path that cannot be decoded. Undocumented. */
const onUnreadable: ErrorRequestHandler = (error: { status?: unknown }, _request, response, next) => {
  if (typeof error.status !== 'number' || response.headersSent) return next(error);
  return writeResponse(response, htmlResponse(error.status, 'The request is not readable'));
};
