import { redactBaseString, redactParameter, redactText } from '../redact-card-data.ts';
import { callbackUrlOf } from './callbacks.ts';
import type { Fault } from './faults.ts';
import type { Pair } from './form.ts';
import { rejections, type VerificationError, type VerificationFailure } from './rejections.ts';
import type { SimulatorResponse } from './response.ts';
import type { KeyName } from './signature.ts';

const maxParameters = 100;
const maxTextLength = 256;
const maxBaseStringLength = 8192;
const unknownPath = 'No operation of the scenario has this method and path.';
const noCallback = 'No callback is sent: server_callback_url must be http on loopback.';

/** A check of a request. Nothing of it is secret, but texts of the request may hold card data. */
interface Step {
  readonly step: string;
  readonly result: 'passed' | 'failed';
  readonly rejection: VerificationFailure | undefined;
  /** The OAuth parameter that is missing, repeated or different. */
  readonly parameter?: string | undefined;
  readonly requiredMethod?: string;
  readonly receivedMethod?: string | undefined;
  /** Seconds since 1970. */
  readonly timestamp?: number;
  /** The simulator's clock, in the same unit. */
  readonly clock?: number;
  readonly windowSeconds?: number;
  readonly baseString?: string | undefined;
  /** What a control covers. */
  readonly controlText?: string;
  /** The key that made the signature. */
  readonly key?: KeyName | undefined;
  /** The keys that did not make it. */
  readonly triedKeys?: readonly KeyName[] | undefined;
}

/** Records the steps of one verification, up to the first that fails. */
export class VerificationTrace {
  readonly steps: Step[] = [];
  /** The consumer key, once it is known: what the request claims, verified or not. */
  login: string | undefined;
  /** The parameters of the request without those of OAuth, once they are decoded. */
  form: readonly Pair[] = [];

  /** Begins a step. It passes unless {@link fail} follows. */
  begin(step: string): void {
    this.steps.push({ step, result: 'passed', rejection: undefined });
  }

  /** Adds details to the last step. */
  note(details: Partial<Step>): void {
    Object.assign(this.steps.at(-1) ?? {}, details);
  }

  /** Ends the verification with the last step. */
  fail({ reason: rejection, parameter }: VerificationError): void {
    this.note({ result: 'failed', rejection, parameter });
  }
}

/** How a request was handled. */
export interface Handled {
  readonly content: SimulatorResponse;
  readonly rejection?: VerificationFailure;
  readonly fault?: Fault;
}

/** What the journal has of a request. Holds no card data, keys or signatures; its size is bounded. */
export function entryOf(
  { method, path }: { readonly method: string; readonly path: string },
  { form, login, steps }: VerificationTrace,
  { content: { status }, rejection, fault: { fault, delaySeconds = 0 } = {} }: Handled,
  time: number,
  operation?: string,
) {
  const omitted = form.length - maxParameters;
  const isFaulty = fault !== undefined || delaySeconds > 0;
  return {
    /** When the response was decided, in UTC: real time, without the clock offset. */
    time: new Date(time).toISOString(),
    method,
    path: shown(path),
    /** Absent for a path that the simulator does not serve, and for a body that cannot be read. */
    operation,
    /** The consumer key of the request, verified or not. */
    login: login && shown(login),
    parameters: form.slice(0, maxParameters).map(shownParameter),
    /** How many more parameters the form had. */
    omittedParameters: omitted > 0 ? omitted : undefined,
    /** The checks that were made: all, or up to the first that failed. */
    steps: steps.map(shownStep),
    rejection,
    /** What the rejection or a 404 means, and what to check; or why no callback is sent. */
    hint: rejection ? rejections[rejection] : status === 404 ? unknownPath : callbackHint(form),
    fault: isFaulty ? { fault, delaySeconds: delaySeconds || undefined } : undefined,
    /** Of the response; `null` if a fault left none. */
    status: fault === 'reset' ? null : status,
  };
}

function callbackHint(form: readonly Pair[]): string | undefined {
  const [, url] = form.find(([name]) => name === 'server_callback_url') ?? [];
  return url === undefined || callbackUrlOf(url) ? undefined : noCallback;
}

function shownParameter([name, value]: Pair) {
  const [shownName, shownValue] = redactParameter(name, value);
  return { name: shortened(shownName), value: shortened(shownValue) };
}

/** The texts that come from the request. */
function shownStep(step: Step): Step {
  const { parameter, receivedMethod, baseString, controlText } = step;
  return {
    ...step,
    parameter: parameter && shown(parameter),
    receivedMethod: receivedMethod && shown(receivedMethod),
    baseString: baseString && shortened(redactBaseString(baseString), maxBaseStringLength),
    ...(controlText !== undefined && { controlText: shown(controlText) }),
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

export type HandledRequest = ReturnType<typeof entryOf>;

/** With an ID from 1; a reset starts again. */
export type JournalEntry = { readonly id: number } & HandledRequest;

/** The last requests. The oldest are dropped first. */
export class Journal {
  readonly #capacity: number;
  #entries: JournalEntry[] = [];
  #total = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  record(entry: HandledRequest): void {
    this.#total += 1;
    this.#entries.push({ id: this.#total, ...entry });
    if (this.#entries.length > this.#capacity) this.#entries.shift();
  }

  /** Oldest first. */
  entries(): readonly JournalEntry[] {
    return this.#entries;
  }

  /** How many requests were recorded, including those that were dropped. */
  get total(): number {
    return this.#total;
  }

  clear(): void {
    this.#entries = [];
    this.#total = 0;
  }
}
