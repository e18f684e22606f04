'use strict';

/**
 * Loaded first by the npm scripts that start Countersign: ends the process, as SIGTERM does, when npm is gone. A killed
 * npm cannot pass its signal on, and would leave a demo running that holds its ports. The scripts use `exec`, so that npm
 * is the parent rather than a shell, which would not pass SIGTERM on either.
 */
const parent = process.ppid;

const timer = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(timer);
  process.kill(process.pid, 'SIGTERM');
}, 250);
timer.unref();
