import type { ErrorRequestHandler, Express, Request, Response } from 'express';
import express from 'express';
import { redactBaseString, redactParameter, redactText } from '../redact-card-data.ts';
import { deliver, deliveredStatus, type Fault } from './faults.ts';
import type { Pair } from './form.ts';
import { createHandler, type Handled, type HandlerOptions } from './handler.ts';
import type { AppliedFault, JournalEntry } from './journal.ts';
import { rejections } from './rejections.ts';
import { htmlResponse, writeResponse } from './response.ts';
import { type Route, routesOf } from './routes.ts';
import { baseUrlOf } from './signature.ts';
import { SimulatorState, type StateOptions } from './state.ts';
import { type Step, VerificationTrace } from './verification-trace.ts';
import type { VerifiedRequest } from './verified-request.ts';
import type { RawRequest } from './verify.ts';

type Entry = Omit<JournalEntry, 'id'>;

/** The parts of an HTTP request that a journal entry starts with. */
interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Milliseconds since 1970. */
  readonly now: number;
}

const maxParameters = 100;

const maxTextLength = 256;

const maxBaseStringLength = 8192;

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

/** The entry of a request that reached no operation. */
function unroutedEntry(head: RequestHead, status: number): Entry {
  const hint = status === 404 ? 'No operation of the scenario has this method and path.' : undefined;
  return { ...shownHead(head), parameters: [], steps: [], hint, status };
}

/** The entry of a request for an operation. */
function operationEntry(
  head: RequestHead,
  operation: string,
  { form, login, steps }: VerificationTrace,
  { content, fault, faultId, rejection }: Handled,
): Entry {
  const omitted = form.length - maxParameters;
  return {
    ...shownHead(head),
    operation,
    login: login && shown(login),
    parameters: form.slice(0, maxParameters).map(shownParameter),
    omittedParameters: omitted > 0 ? omitted : undefined,
    steps: steps.map(shownStep),
    rejection,
    hint: rejection && rejections[rejection],
    fault: appliedFault(fault, faultId),
    status: deliveredStatus(content, fault),
  };
}

function appliedFault({ fault, delaySeconds = 0 }: Fault, id: number | undefined): AppliedFault | undefined {
  if (id === undefined && fault === undefined && delaySeconds === 0) return undefined;
  return { id, fault, delaySeconds: delaySeconds === 0 ? undefined : delaySeconds };
}

function shownHead({ method, path, now }: RequestHead): Pick<JournalEntry, 'time' | 'method' | 'path'> {
  return { time: new Date(now).toISOString(), method, path: shown(path) };
}

function shownParameter([name, value]: Pair): JournalEntry['parameters'][number] {
  const [shownName, shownValue] = redactParameter(name, value);
  return { name: shortened(shownName), value: shortened(shownValue) };
}

/** The texts that come from the request. */
function shownStep(step: Step): Step {
  const { parameter, receivedMethod, baseString } = step;
  return {
    ...step,
    parameter: parameter && shown(parameter),
    receivedMethod: receivedMethod && shown(receivedMethod),
    baseString: baseString && shortened(redactBaseString(baseString), maxBaseStringLength),
  };
}

/** Redacted before it is cut, so that no part of a card number stays. */
function shown(text: string): string {
  return shortened(redactText(text));
}

/** A copy: a slice would keep the whole text in memory. */
function shortened(text: string, length = maxTextLength): string {
  if (text.length <= length) return text;
  return `${Buffer.from(text.slice(0, length)).toString()}... (${text.length - length} more characters)`;
}

/** The request as received: raw target, raw body, every Authorization header. */
function receivedFrom(request: Request): RawRequest {
  const [path = '', ...query] = request.originalUrl.split('?');
  const body: unknown = request.body;
  const { login } = pathOf(request);
  return {
    url: baseUrlOf(request.protocol, request.headers.host ?? '', path),
    hasQuery: query.length > 0,
    contentType: request.headers['content-type'],
    authorization: request.headersDistinct['authorization'] ?? [],
    body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    pathLogin: login,
  };
}

/** The variable segments of the path, decoded. */
function pathOf(request: Request): VerifiedRequest['path'] {
  return Object.fromEntries(Object.entries(request.params).map(([name, value]) => [name, String(value)]));
}
