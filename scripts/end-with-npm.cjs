'use strict';

/**
 * Loaded first by the npm scripts that start Countersign: ends the process, as SIGTERM does, when npm is gone. A killed
 * npm cannot pass its signal on, and would leave a demo running that holds its ports. The scripts use `exec`, so that npm
 * is the parent rather than a shell, which would not pass SIGTERM on either, and give its process ID, since it may be
 * killed before this runs.
 */
const parent = process.ppid;
const npm = Number(process.env.NPM_PID);

const timer = setInterval(() => {
  // A killed process exists until it is waited for, but is no parent.
  if (process.ppid === parent && exists(npm)) return;
  clearInterval(timer);
  process.kill(process.pid, 'SIGTERM');
}, 250);
timer.unref();

/** @param {number} pid */
function exists(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
