import { Backoff } from '../util/backoff.ts';
import type { MonotonicClock, SetTimer } from '../util/clock.ts';
import type { LogFields, Logger } from './logger.ts';

/** Milliseconds in which the third outage makes a source flapping. */
const period = 60_000;

const outages = 3;

/** Milliseconds without a failure after which a flapping source is up. */
const quiet = 30_000;

interface SteadyStateOptions extends MonotonicClock {
  readonly setTimer: SetTimer;
  /** @param cause why it is down */
  readonly report: (up: boolean, cause?: string) => void;
}

/** Milliseconds between lines with the same cause. */
const repetition = { initial: 300_000, max: 300_000 };

interface OutageLogOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  readonly source: string;
  /** Default: those of the key source. */
  readonly messages?: { readonly failed: string; readonly recovered: string };
}

export type OutageLog = ReturnType<typeof createOutageLog>;

/**
 * Logs an outage, by default of the key source: an error line at the beginning, at a change of the cause, and every five
 * minutes, and an info line at the end, however many attempts fail.
 */
export function createOutageLog({
  log,
  source,
  monotonic,
  messages = { failed: 'key source unavailable', recovered: 'key source available again' },
}: OutageLogOptions) {
  /** By cause: those that have a line. */
  const reported = new Backoff(repetition);
  let startedAt: number | undefined;
  const write = (level: 'info' | 'error', text: string, since: number, why: LogFields = {}): void =>
    log.message(level, text, { source, ...why, seconds: Math.round((monotonic() - since) / 1000) });
  return {
    /** @param cause why; must not contain a secret */
    failed(cause: string): void {
      const now = monotonic();
      startedAt ??= now;
      if (!reported.isDue(now, cause)) return;
      reported.recordFailure(now, {}, cause);
      write('error', messages.failed, startedAt, { cause });
    },
    answered(): void {
      if (startedAt === undefined) return;
      write('info', messages.recovered, startedAt);
      startedAt = undefined;
      reported.reset();
    },
  };
}

export type SteadyState = ReturnType<typeof createSteadyState>;

/**
 * Reports whether a source is up. One that fails for the third time within a minute is flapping, which is one state: it
 * is down until it has not failed for half a minute. Otherwise each change would be a line in the log, and an alert
 * that waits some minutes would never fire.
 */
export function createSteadyState({ monotonic, setTimer, report }: SteadyStateOptions) {
  /** When the last outages began; monotonic, milliseconds. */
  let beginnings: readonly number[] = [];
  let [isDown, isFlapping, failedAt] = [false, false, 0];
  let cancelTimer: (() => void) | undefined;
  const reportUp = (): void => {
    isDown = false;
    report(true);
  };
  return {
    failed(cause: string): void {
      const now = monotonic();
      if (!isDown) {
        beginnings = [...beginnings, now].slice(-outages);
        const [first = now] = beginnings;
        isFlapping = beginnings.length === outages && now - first < period;
      }
      [isDown, failedAt] = [true, now];
      cancelTimer?.();
      report(false, cause);
    },
    responded(): void {
      const wait = isDown && isFlapping ? failedAt + quiet - monotonic() : 0;
      cancelTimer?.();
      if (wait > 0) cancelTimer = setTimer(reportUp, wait);
      else reportUp();
    },
  };
}
