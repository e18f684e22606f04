import type { ErrorRequestHandler, Express, Request, Response } from 'express';
import express from 'express';
import { redactBaseString, redactParameter, redactText } from '../redact-card-data.ts';
import { deliver, hasResponse } from './faults.ts';
import type { Pair } from './form.ts';
import { createHandler, type Handled, type HandlerOptions } from './handler.ts';
import type { JournalEntry } from './journal.ts';
import { rejections } from './rejections.ts';
import { htmlResponse, writeResponse } from './response.ts';
import { type Route, routesOf } from './routes.ts';
import { baseUrlOf } from './signature.ts';
import { SimulatorState, type StateOptions } from './state.ts';
import { type Step, VerificationTrace } from './verification-trace.ts';
import type { RawRequest } from './verify.ts';

const maxParameters = 100;

const maxTextLength = 256;

const maxBaseStringLength = 8192;

export interface SimulatorOptions extends HandlerOptions, StateOptions {}

/** The simulated gateway of one environment. */
export interface Simulator extends SimulatorState {
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
  const operations = routesOf(options.scenario).map(({ operation }) => operation);
  return Object.assign(state, { app: createApp(options, state), operations });
}

function createApp(options: SimulatorOptions, state: SimulatorState): Express {
  const handle = createHandler(options, state);
  const record = (
    { method, path }: Request,
    entry: Omit<JournalEntry, 'id' | 'time' | 'method' | 'path'>,
  ): void =>
    state.journal.record({
      time: new Date(options.clock()).toISOString(),
      method,
      path: shown(path),
      ...entry,
    });
  const reject = (request: Request, response: Response, status: number, text: string) => {
    const hint = status === 404 ? 'No operation of the scenario has this method and path.' : undefined;
    record(request, { parameters: [], steps: [], hint, status });
    writeResponse(response, htmlResponse(status, text));
  };
  const serve = (route: Route) => async (request: Request, response: Response) => {
    const trace = new VerificationTrace();
    const handled = handle(route, receivedFrom(request), trace);
    record(request, operationEntry(route.operation, trace, handled));
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

/** What the journal shows of a request for an operation. */
function operationEntry(
  operation: string,
  { form, login, steps }: VerificationTrace,
  { content, fault: { fault, delaySeconds = 0 }, faultId, rejection }: Handled,
) {
  const omitted = form.length - maxParameters;
  const isFaulty = faultId !== undefined || fault !== undefined || delaySeconds > 0;
  return {
    operation,
    login: login && shown(login),
    parameters: form.slice(0, maxParameters).map(shownParameter),
    omittedParameters: omitted > 0 ? omitted : undefined,
    steps: steps.map(shownStep),
    rejection,
    hint: rejection && rejections[rejection],
    fault: isFaulty ? { id: faultId, fault, delaySeconds: delaySeconds || undefined } : undefined,
    status: hasResponse(fault) ? content.status : null,
  };
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
  return {
    url: baseUrlOf(request.protocol, request.headers.host ?? '', path),
    hasQuery: query.length > 0,
    contentType: request.headers['content-type'],
    authorization: request.headersDistinct['authorization'] ?? [],
    body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
    path: Object.fromEntries(Object.entries(request.params).map(([name, value]) => [name, String(value)])),
  };
}
