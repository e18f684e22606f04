/** Why a JWT was rejected, for the log and the metrics. A client never learns it. */
export const jwtProblems = [
  /** Not a signed JWT in compact form, too large, or with a name twice. */
  'jwt-malformed',
  /** A header that names a key or an extension, or another type. */
  'jwt-header',
  'jwt-issuer',
  'jwt-algorithm',
  /** The issuer has no such key, or more than one that fits. */
  'jwt-key',
  'jwt-signature',
  'jwt-expired',
  'jwt-not-yet-valid',
  'jwt-audience',
  /** A claim is missing or has the wrong type. */
  'jwt-claim',
  /** Valid, but no caller has such a subject and claims. */
  'jwt-no-caller',
  /** Two callers have this subject and claims. */
  'jwt-ambiguous',
  /** The issuer's keys are not available. The token may be valid. */
  'jwt-keys-unavailable',
] as const;

export type JwtProblem = (typeof jwtProblems)[number];

export class JwtError extends Error {
  override readonly name = 'JwtError';
  readonly problem: JwtProblem;
  /** Only of a token whose signature is valid: bounded, one line of plain ASCII. */
  readonly subject: string | undefined;

  constructor(problem: JwtProblem, subject?: string) {
    super(problem);
    this.problem = problem;
    this.subject = subject;
  }
}
