import { appendFileSync, readFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded into the attacked process before its program: writes how late its event loop was, as lines of the time, the
 * delay, and the delay without the time that other processes took the core away (milliseconds). The latter is the process's
 * own doing, also on a busy machine.
 */
const [sampling, writing] = [10, 100];
const file = process.env['ABUSE_LOOP_FILE'];

/** Milliseconds so far that this thread could run but had no core, and that all threads of this process ran. */
function times(): { waited: number; used: number } {
  const waited = Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[1]) / 1e6;
  const { user, system } = process.cpuUsage();
  return { waited, used: (user + system) / 1_000 };
}

if (isMainThread && file !== undefined) {
  let before = { at: performance.now(), ...times() };
  let writtenAt = before.at;
  let [longest, own] = [0, 0];
  setInterval(() => {
    const now = { at: performance.now(), ...times() };
    const elapsed = now.at - before.at;
    const stolen = Math.min(now.waited - before.waited, Math.max(0, elapsed - (now.used - before.used)));
    longest = Math.max(longest, elapsed - sampling);
    own = Math.max(own, elapsed - sampling - stolen);
    before = now;
    if (now.at - writtenAt < writing) return;
    appendFileSync(file, `${Date.now()} ${longest.toFixed(1)} ${own.toFixed(1)}\n`);
    [writtenAt, longest, own] = [now.at, 0, 0];
  }, sampling).unref();
}
