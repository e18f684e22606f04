/** The result of one check of `check --online`. The names are those of `--json`. */
export interface CheckResult {
  readonly check: 'vault' | 'directory' | 'key' | 'jwt-issuer' | 'gateway';
  readonly subject: string;
  readonly result: 'ok' | 'warning' | 'failed' | 'not-checked';
  readonly milliseconds?: number;
  readonly detail: string;
}

/** Runs a check and times it. The detail is its text, or that of its error. */
export async function runCheck(
  row: Pick<CheckResult, 'check' | 'subject'>,
  work: () => Promise<string>,
  explain: (error: unknown) => string,
): Promise<CheckResult> {
  const startedAt = performance.now();
  const milliseconds = () => Math.round(performance.now() - startedAt);
  try {
    const detail = await work();
    return { ...row, result: 'ok', milliseconds: milliseconds(), detail };
  } catch (error) {
    return { ...row, result: 'failed', milliseconds: milliseconds(), detail: explain(error) };
  }
}
