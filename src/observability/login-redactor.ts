import { holdsCardNumber } from '../redact-card-data.ts';
import type { RequestContext } from '../request-context.ts';
import type { DebugFields, LogFields, Logger } from './logger.ts';
import type { MetricsObserver } from './metrics-observer.ts';

/** Written in place of a login that looks like a card number. */
export const redactedLogin = '[redacted: looks like a card number]';

/**
 * Keeps card numbers that callers send as a login out of the log, the metrics and error texts. A login that
 * looks like a card number is written only if the configuration contains it: as a value of an endpoint map, or
 * exactly in a grant. Only this class has that rule; every log line and every metric passes through it.
 */
export class LoginRedactor {
  readonly #configured: Set<string>;

  constructor(configured: Iterable<string>) {
    this.#configured = new Set(configured);
  }

  /** Adds the logins of a reloaded configuration; in-flight requests may still have earlier ones. */
  allow(configured: Iterable<string>): void {
    for (const login of configured) this.#configured.add(login);
  }

  /** Replaces each word that looks like a card number. A word consists of the characters of a login. */
  readonly text = (text: string): string =>
    holdsCardNumber(text)
      ? text.replace(/[\w.~@-]+/g, (word) => (this.#isAllowed(word) ? word : redactedLogin))
      : text;

  /** The same for a name in a certificate or a JWT, which unlike a login may have digits in groups with spaces. */
  readonly name = (name: string): string => {
    const redacted = this.text(name);
    return holdsCardNumber(redacted.replaceAll(' ', '-')) ? redactedLogin : redacted;
  };

  log(log: Logger): Logger {
    return {
      ...log,
      requestFinished: (context) => log.requestFinished(this.#redactRequest(context)),
      message: (level, message, fields = {}) =>
        log.message(level, this.text(message), this.#redactFields(fields)),
      ...this.#debug(log),
    };
  }

  /** Redacts every text of a debug line, whatever its field. */
  #debug({ debug }: Logger): Pick<Logger, 'debug'> {
    if (debug === undefined) return {};
    const redacted = (fields: DebugFields): DebugFields =>
      Object.fromEntries(
        Object.entries(fields).map(([name, value]) => [
          name,
          typeof value === 'string' ? this.text(value) : value,
        ]),
      );
    return { debug: (message, fields) => debug(this.text(message), redacted(fields)) };
  }

  /** Drops key series of redacted logins: all such logins would share one series. */
  metrics<M extends MetricsObserver>(metrics: M): M {
    return {
      ...metrics,
      requestFinished: (context) => metrics.requestFinished(this.#redactRequest(context)),
      keyRingUpdated: (login, ring, removal) => {
        if (this.#isAllowed(login.login)) metrics.keyRingUpdated(login, ring, removal);
      },
      keySourceUp: (up, cause) => metrics.keySourceUp(up, cause && this.text(cause)),
      loginFailed: (problem) => metrics.loginFailed(this.text(problem)),
      keyFallback: (login, kind, to) => {
        if (this.#isAllowed(login.login)) metrics.keyFallback(login, kind, to);
      },
    };
  }

  #redactRequest(context: RequestContext): RequestContext {
    const { login, rejected } = context;
    const redacted =
      login === undefined || this.#isAllowed(login) ? context : { ...context, login: redactedLogin };
    return rejected === undefined ? redacted : { ...redacted, rejected: this.#redactRejected(rejected) };
  }

  /** The names in a certificate or a JWT are whatever its maker chose. */
  #redactRejected(
    rejected: NonNullable<RequestContext['rejected']>,
  ): NonNullable<RequestContext['rejected']> {
    const { login, jwtSubject, certificateSubject, certificateIssuer } = rejected;
    return {
      ...rejected,
      login: login && this.text(login),
      jwtSubject: jwtSubject && this.name(jwtSubject),
      certificateSubject: certificateSubject && this.name(certificateSubject),
      certificateIssuer: certificateIssuer && this.name(certificateIssuer),
    };
  }

  #redactFields(fields: LogFields): LogFields {
    const { login } = fields;
    return typeof login === 'string' ? { ...fields, login: this.text(login) } : fields;
  }

  #isAllowed(login: string): boolean {
    return !holdsCardNumber(login) || this.#configured.has(login);
  }
}
