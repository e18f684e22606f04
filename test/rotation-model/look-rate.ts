/** The most looks in one second, at all logins together. */
const maxPerSecond = 30;

/** The limit of one instance's looks: reads of Vault past the cache because of 403s. */
export class LookRate {
  readonly #report: (violation: string) => void;
  readonly #last: number[] = [];

  constructor(report: (violation: string) => void) {
    this.#report = report;
  }

  looked(now: number): void {
    this.#last.push(now);
    if (this.#last.length <= maxPerSecond) return;
    const first = this.#last.shift() ?? now;
    if (now < first + 1_000) this.#report(`${maxPerSecond + 1} looks in ${now - first} ms`);
  }
}
