import { redactBaseString, redactParameter, redactText } from '../redact-card-data.ts';
import { deliveredStatus } from './faults.ts';
import type { Pair } from './form.ts';
import type { Handled } from './handler.ts';
import type { JournalEntry } from './journal.ts';
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
  return {
    ...shownHead(head),
    parameters: [],
    steps: [],
    ...(hint === undefined ? {} : { hint }),
    status,
  };
}

/** The entry of a request for an operation. */
export function operationEntry(
  head: RequestHead,
  operation: string,
  trace: VerificationTrace,
  { content, fault, faultId, rejection }: Handled,
): Entry {
  const omitted = trace.form.length - maxParameters;
  const { fault: name, delaySeconds = 0 } = fault;
  const applied = {
    ...(faultId === undefined ? {} : { id: faultId }),
    ...(name === undefined ? {} : { fault: name }),
    ...(delaySeconds === 0 ? {} : { delaySeconds }),
  };
  return {
    ...shownHead(head),
    operation,
    ...(trace.login === undefined ? {} : { login: shown(trace.login) }),
    parameters: trace.form.slice(0, maxParameters).map(shownParameter),
    ...(omitted > 0 ? { omittedParameters: omitted } : {}),
    steps: trace.steps.map(shownStep),
    ...(rejection === undefined ? {} : { rejection, hint: rejections[rejection] }),
    ...(Object.keys(applied).length === 0 ? {} : { fault: applied }),
    status: deliveredStatus(content, fault),
  };
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
    ...(parameter === undefined ? {} : { parameter: shown(parameter) }),
    ...(receivedMethod === undefined ? {} : { receivedMethod: shown(receivedMethod) }),
    ...(baseString === undefined
      ? {}
      : { baseString: shortened(redactBaseString(baseString), maxBaseStringLength) }),
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
