import { TLSSocket } from 'node:tls';
import type { Request, Response } from 'express';
import { isAllowed, type Wish } from '../callers/access.ts';
import type { Presented } from '../callers/authenticate.ts';
import { namesIn } from '../callers/certificate.ts';
import type { CallerConfig } from '../config/shape.ts';
import { Refusal } from '../errors.ts';
import type { Exchange } from '../exchange.ts';
import { checkParameters } from '../gateway/check-parameters.ts';
import { findLogin } from '../gateway/login.ts';
import type { Destination } from '../gateway/resolve.ts';
import type { Log } from '../ops/log.ts';
import type { Meter } from '../ops/meter.ts';
import type { Admission } from './admission.ts';
import { answer } from './answer.ts';
import type { ReadForm } from './body.ts';
import { afterClose, breakOffUntaken } from './break-off.ts';
import type { GatewayReply } from './crossing.ts';
import { checkEdge } from './edge.ts';
import type { InFlight } from './in-flight.ts';
import type { MemoryBudget, MemoryReservation } from './memory-budget.ts';
import { outcomeWithoutResponse, withTrueOutcome } from './outcome.ts';
import type { Errand } from './post.ts';
import { refuse } from './refuse.ts';
import type { Sender } from './send.ts';
import { parseTraceparent } from './trace-context.ts';

export interface HandlerPorts {
  readonly authenticate: (presented: Presented) => Promise<CallerConfig>;
  readonly resolve: (target: string) => Destination;
  readonly readForm: ReadForm;
  readonly admission: Admission;
  readonly memory: MemoryBudget;
  readonly inFlight: InFlight;
  readonly sender: Sender;
  readonly log: Log;
  readonly meter: Meter;
  /** Milliseconds that a caller may take to read its answer. */
  readonly takingDeadline: number;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
  /** Takes out of a text the logins that may not be written. */
  readonly redact: (text: string) => string;
}

/** Makes the handler of every request to the proxy: one answer, one log line, one set of metrics each. */
export function createHandler(ports: HandlerPorts): (request: Request, response: Response) => Promise<void> {
  return async (request, response) => {
    const exchange = begin(request, ports);
    const memory = ports.memory.reservation();
    const { aborted, leave } = ports.inFlight.enter();
    try {
      await Promise.race([respond(request, response, { exchange, memory }, ports), aborted]);
    } catch (error) {
      await refuse(request, response, exchange, asRefusal(error, exchange, ports));
    } finally {
      breakOffUntaken(response, ports.takingDeadline);
      afterClose(response, () => memory.release());
      exchange.durations.total = (ports.monotonic() - exchange.startedAt) / 1000;
      ports.log.exchange(exchange);
      ports.meter.exchangeEnded(exchange);
      leave();
    }
  };
}

/** What belongs to one request while it is handled. */
interface Scope {
  readonly exchange: Exchange;
  readonly memory: MemoryReservation;
}

async function respond(
  request: Request,
  response: Response,
  scope: Scope,
  ports: HandlerPorts,
): Promise<void> {
  const { reply, settings } = await serve(request, response, scope, ports);
  await answer(request, response, scope.exchange, reply, settings);
}

/** A request's way. Every step throws a Refusal, and nothing is sent before the last. */
async function serve(
  request: Request,
  response: Response,
  { exchange, memory }: Scope,
  ports: HandlerPorts,
): Promise<{ reply: GatewayReply; settings: Destination['settings'] }> {
  checkEdge(request);
  const caller = await ports.authenticate(presentedBy(request, ports.clock()));
  exchange.caller = caller.name;
  const destination = ports.resolve(request.url);
  exchange.environment = destination.environment;
  exchange.operation = destination.operation.name;
  exchange.readOnly = destination.operation.repeatable;
  const form = await ports.readForm(request, response, memory);
  const login = findLogin(destination, form, request.get('countersign-login'));
  authorise(
    caller,
    { environment: destination.environment, operation: destination.operation.name, login },
    ports,
  );
  exchange.login = login;
  checkParameters(destination.operation, form);
  const reply = await underWay({ exchange, destination, login, form, memory }, ports);
  return { reply, settings: destination.settings };
}

/** An unknown login gets the same answer as one that is not granted. */
function authorise(caller: CallerConfig, wish: Wish, { meter, log }: HandlerPorts): void {
  if (isAllowed(caller, wish)) {
    meter.policyDecided(caller.name, 'allowed');
  } else if (caller.mode === 'report') {
    meter.policyDecided(caller.name, 'would-refuse');
    log.note('warn', 'enforcing would refuse this request', { caller: caller.name, ...wish });
  } else {
    meter.policyDecided(caller.name, 'refused');
    throw new Refusal('not-allowed', 'No grant of this caller covers the environment, operation and login.');
  }
}

/** Holds a place of the environment while the gateway is dealt with, whether or not the caller stays. */
async function underWay(errand: Errand, { admission, meter, sender }: HandlerPorts): Promise<GatewayReply> {
  const { environment, settings } = errand.destination;
  const leave = admission.enter(environment, settings.maxInFlight);
  meter.exchangeBegan(environment);
  try {
    return await sender.send(errand);
  } finally {
    meter.exchangeLeft(environment);
    leave();
  }
}

function begin(request: Request, { newRequestId, monotonic }: HandlerPorts): Exchange {
  const trace = parseTraceparent(request.get('traceparent'));
  return {
    id: newRequestId(),
    ...(trace === undefined ? {} : { traceId: trace.traceId, traceSampled: trace.sampled }),
    startedAt: monotonic(),
    outcome: 'not-sent',
    attempts: 0,
    durations: {},
  };
}

function presentedBy(request: Request, now: number): Presented {
  const { socket } = request;
  const shown =
    socket instanceof TLSSocket && socket.authorized ? socket.getPeerX509Certificate() : undefined;
  // TLS looks at it once; a connection, or a session that is resumed, may outlive it.
  const valid = shown !== undefined && now <= shown.validToDate.getTime();
  return {
    authorization: request.get('authorization'),
    certificate: valid ? namesIn(shown.subjectAltName) : undefined,
  };
}

/** What is not a Refusal is a defect: logged without its text, answered without any of it. */
function asRefusal(error: unknown, exchange: Exchange, { log, redact }: HandlerPorts): Refusal {
  if (error instanceof Refusal) {
    const detail = redact(error.detail);
    return withTrueOutcome(detail === error.detail ? error : error.withDetail(detail), exchange);
  }
  log.failed(exchange, error);
  return new Refusal('internal', 'This is a defect of Countersign. Give its operators the request id.', {
    outcome: outcomeWithoutResponse(exchange),
  });
}
