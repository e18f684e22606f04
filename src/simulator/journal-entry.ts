import { redactBaseString, redactParameter, redactText } from '../redact-card-data.ts';
import { deliveredStatus, type Fault } from './faults.ts';
import type { Pair } from './form.ts';
import type { Handled } from './handler.ts';
import type { AppliedFault, JournalEntry } from './journal.ts';
import { rejections } from './rejections.ts';
import type { Step, VerificationTrace } from './verification-trace.ts';

type Entry = Omit<JournalEntry, 'id'>;

/** The parts of an HTTP request that a journal entry starts with. */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Milliseconds since 1970. */
  readonly now: number;
}

const maxParameters = 100;
const maxTextLength = 256;
const maxBaseStringLength = 8192;

/** The entry of a request that reached no operation. */
export function unroutedEntry(head: RequestHead, status: number): Entry {
  const hint = status === 404 ? 'No operation of the scenario has this method and path.' : undefined;
  return { ...shownHead(head), parameters: [], steps: [], hint, status };
}

/** The entry of a request for an operation. */
export function operationEntry(
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
