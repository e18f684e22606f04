/** Keeps claims for a time. Knows neither what their names mean nor what is in them. */
export interface ClaimStore {
  /**
   * Stores a claim unless there is one of this name, as one step.
   *
   * @returns the one that is there; `undefined` if this one was stored
   * @throws StoreUnavailable if neither is certain. This one is removed, if it was stored, as soon as the store responds
   */
  claim(name: string, claim: string): Promise<string | undefined>;
  /**
   * Replaces exactly this claim, or removes it where there is no next one; if another is there, nothing changes. Resolves
   * when it is done, or after a while: then it is done as soon as the store responds.
   */
  replace(name: string, claim: string, next?: string): Promise<void>;
  /** Resolves when what waits is done, or after a while. */
  close(): Promise<void>;
}

/** The store did not respond, or with something else. `cause` is for operators; it has no secret. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
  readonly problem: string;

  constructor(problem: string) {
    super(problem);
    this.problem = problem;
  }
}
