/** One thing that `check --online` looked at. The names are those of `--json`. */
export interface CheckResult {
  readonly check: 'vault' | 'directory' | 'key' | 'gateway';
  readonly subject: string;
  readonly result: 'ok' | 'failed' | 'not-checked';
  readonly milliseconds?: number;
  readonly detail: string;
}

/** Makes a row of some work: its text where it is done, the error's where it fails. */
export async function runCheck(
  about: Pick<CheckResult, 'check' | 'subject'>,
  work: () => Promise<string>,
  explain: (error: unknown) => string,
): Promise<CheckResult> {
  const startedAt = performance.now();
  const milliseconds = () => Math.round(performance.now() - startedAt);
  try {
    const detail = await work();
    return { ...about, result: 'ok', milliseconds: milliseconds(), detail };
  } catch (error) {
    return { ...about, result: 'failed', milliseconds: milliseconds(), detail: explain(error) };
  }
}
