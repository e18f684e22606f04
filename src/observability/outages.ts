import { Backoff } from '../util/backoff.ts';
import type { MonotonicClock, SetTimer } from '../util/clock.ts';
import type { Logger } from './logger.ts';

/** Milliseconds in which the third outage makes a source flapping. */
const period = 60_000;

const outages = 3;

/** Milliseconds without a failure after which a flapping source is up. */
const quiet = 30_000;

interface SteadyStateOptions extends MonotonicClock {
  readonly setTimer: SetTimer;
  readonly report: ReportUp;
}

/** Milliseconds between lines with the same cause. */
const repetition = { initial: 300_000, max: 300_000 };

interface OutageLogOptions extends MonotonicClock {
  readonly log: Pick<Logger, 'message'>;
  readonly source: string;
  readonly messages: { readonly failed: string; readonly recovered: string };
}

/** @param cause why it is down; must not contain a secret */
export type ReportUp = (up: boolean, cause?: string) => void;

/**
 * Logs outages of a source: an error line at the beginning, at a change of the cause, and every five
 * minutes, and an info line at the end, however many attempts fail.
 */
export function createOutageLog({ log, source, monotonic, messages }: OutageLogOptions): ReportUp {
  /** By cause: those that have a line. */
  const reported = new Backoff(repetition);
  let startedAt: number | undefined;
  return (up, cause = 'unknown') => {
    if (up && startedAt === undefined) return;
    const now = monotonic();
    startedAt ??= now;
    const seconds = Math.round((now - startedAt) / 1000);
    if (up) {
      log.message('info', messages.recovered, { source, seconds });
      startedAt = undefined;
      reported.reset();
    } else if (reported.isDue(now, cause)) {
      reported.recordFailure(now, cause);
      log.message('error', messages.failed, { source, cause, seconds });
    }
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
