import type { ErrorRequestHandler, Response } from 'express';
import { type Finding, pathText } from '../../config/problem.ts';

/** An error of the admin API. Contains nothing of the request, which may hold a key. */
export class AdminError extends Error {
  override readonly name = 'AdminError';
  readonly status: number;
  readonly findings: readonly Finding[];

  /** @param detail what happened, then what to do */
  constructor(status: number, detail: string, findings: readonly Finding[] = []) {
    super(detail);
    this.status = status;
    this.findings = findings;
  }
}

/** Indented, because a person reads it in a terminal. */
export function sendJson(response: Response, status: number, type: string, value: unknown): void {
  response.status(status).set('Cache-Control', 'no-store').type(type);
  response.send(`${JSON.stringify(value, undefined, 2)}\n`);
}

/** RFC 9457, with one problem for each field. The error handler of express would print the stack. */
export const onAdminError: ErrorRequestHandler = (error: unknown, _request, response, next) => {
  if (response.headersSent) return next(error);
  const { status, message, findings } = error instanceof AdminError ? error : fromExpress(error);
  const problems = findings.map(({ path, message }) => ({ path: pathText(path), message }));
  return sendJson(response, status, 'application/problem+json', {
    status,
    detail: message,
    ...(problems.length === 0 ? {} : { problems }),
  });
};

/** Of the body parser and the router, such as 413; their messages may quote the request. */
function fromExpress(error: unknown): AdminError {
  const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
  if (typeof status !== 'number' || status < 400 || status > 499) {
    return new AdminError(500, 'Internal error of the simulator');
  }
  return new AdminError(
    status,
    'The request cannot be read. Send JSON of at most 64 KiB, without a content encoding',
  );
}
