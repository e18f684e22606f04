import { randomUUID } from 'node:crypto';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { Accounts } from './accounts.ts';
import { deliver, type Fault, scriptedFault } from './faults.ts';
import { Ledger } from './ledger.ts';
import { NonceMemory } from './nonces.ts';
import { pathOf, receivedFrom } from './raw-request.ts';
import { RequestCounter } from './request-counter.ts';
import { htmlReply, type SimulatorResponse, writeReply } from './response.ts';
import { type Route, routesOf } from './routes.ts';
import type { Scenario } from './scenario-shape.ts';
import type { GatewayKeys } from './signature.ts';
import { VerificationError, type VerificationFailure } from './verification-error.ts';
import type { VerifiedRequest } from './verified-request.ts';
import { type RawRequest, verifyRequest } from './verify.ts';

export interface SimulatorOptions {
  readonly scenario: Scenario;
  /** What is accepted for each login at first. */
  readonly keys: ReadonlyMap<string, GatewayKeys>;
  /** Milliseconds since 1970; the `Date` header follows it. */
  readonly clock: () => number;
  /** Gives each request its UUID. */
  readonly serialNumber?: () => string;
  /** Told about every 403; `operation` is a name of the proxy's table. */
  readonly onRejected?: (reason: VerificationFailure, operation: string) => void;
  /** Asked for every accepted request, after it had its effect; goes before the scenario's faults. */
  readonly fault?: (operation: string, call: VerifiedRequest) => Fault | undefined;
}

/** The gateway of one environment. */
export interface Simulator {
  readonly app: Express;
  /** Counts of what was received. */
  readonly seen: RequestCounter;
  /** Keys and refusals; may be changed while requests are under way. */
  readonly accounts: Accounts;
}

const capacity = { nonces: 200_000, orders: 1000, replies: 10_000 };
const maxBodyBytes = 1_048_576;

/**
 * Plays the gateway as its interface text says, for the five built-in operations. What the text does not show
 * is invented, and such a reply carries `Simulator-Undocumented: true`. Does not listen.
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
    const { reply, fault } = handle(route, receivedFrom(request), pathOf(request));
    await deliver(response, reply, fault);
  };
  for (const route of routesOf(scenario)) app.post(route.path, readBody, serve(route));
  app.use((_request, response) => writeReply(response, htmlReply(404, 'Not found')));
  app.use(onUnreadable);
  return { app, seen, accounts };
}

interface Handled {
  readonly reply: SimulatorResponse;
  readonly fault: Fault;
}

type Handler = (route: Route, received: RawRequest, path: VerifiedRequest['path']) => Handled;

/** From a received request to its reply, apart from HTTP. */
function createHandler(options: SimulatorOptions, accounts: Accounts, seen: RequestCounter): Handler {
  const { scenario, clock, serialNumber = randomUUID } = options;
  const world = { scenario, clock, ledger: new Ledger(scenario.orders, capacity) };
  const nonces = new NonceMemory(capacity.nonces);
  const verifier = { clock, accounts, nonces, timestampWindowSeconds: scenario.timestampWindowSeconds };

  function accept(route: Route, received: RawRequest, path: VerifiedRequest['path']): Handled {
    const { login, keyIndex, form } = verifyRequest(received, route, verifier);
    const call = { login, path, form, serialNumber: serialNumber() };
    const reply = route.answer(call, world);
    seen.add({ operation: route.operation, login, keyIndex });
    const fault = options.fault?.(route.operation, call) ?? scriptedFault(route.operation, call, scenario);
    return { reply, fault };
  }

  function refuse({ reason }: VerificationError, { operation }: Route): Handled {
    seen.add({ operation, rejection: reason });
    options.onRejected?.(reason, operation);
    return { reply: htmlReply(403, 'Access is denied', { 'Simulator-Rejection': reason }), fault: {} };
  }

  return (route, received, path) => {
    try {
      return accept(route, received, path);
    } catch (error) {
      if (error instanceof VerificationError) return refuse(error, route);
      throw error;
    }
  };
}

/** A body that is too large, encoded or cut short, a path that cannot be decoded: not shown, so invented. */
const onUnreadable: ErrorRequestHandler = (error: { status?: unknown }, _request, response, next) => {
  if (typeof error.status !== 'number' || response.headersSent) return next(error);
  return writeReply(response, htmlReply(error.status, 'The request cannot be read'));
};
