import { setTimeout as wait } from 'node:timers/promises';

/** Resolves when the condition holds: it is checked often at first, then every 50 ms. @throws Error after the given number of seconds */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what = String(holds),
  seconds = 15,
): Promise<void> {
  const end = performance.now() + seconds * 1000;
  for (let pause = 2; !(await holds()); pause = Math.min(pause * 1.5, 50)) {
    if (performance.now() > end) throw new Error(`did not happen within ${seconds} s: ${what}`);
    await wait(pause);
  }
}
