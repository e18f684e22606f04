import { type Request, type Response, raw } from 'express';
import { Refusal } from '../errors.ts';
import { decodeForm } from '../oauth1/form.ts';
import type { Pair } from '../oauth1/parameters.ts';

export interface BodyLimits {
  readonly maxBodyBytes: number;
  readonly maxParameters: number;
  /** Milliseconds from the first look at the body to its last byte. */
  readonly deadline: number;
}

const ampersand = 0x26;

export type ReadForm = (request: Request, response: Response) => Promise<Pair[]>;

/**
 * Makes the reader of a request's form: the whole body in one buffer, then decoded.
 *
 * The reader throws Refusal `too-large`, `request-timeout`, `caller-gone`, `malformed-form`, `bad-request`.
 */
export function createFormReader(limits: BodyLimits): ReadForm {
  // `inflate: false` and `type: () => true`: the bytes as they came, whatever the headers say.
  const parse = raw({ inflate: false, limit: limits.maxBodyBytes, type: () => true });
  return async (request, response) => {
    if (request.headers.expect !== undefined) response.writeContinue();
    const body = await within(
      limits.deadline,
      new Promise<unknown>((resolve, reject) => {
        parse(request, response, (error) =>
          error ? reject(translate(error, limits)) : resolve(request.body),
        );
      }),
    );
    // express.raw leaves the body of a request that announces none undefined.
    return Buffer.isBuffer(body) ? decodeBounded(body, limits.maxParameters) : [];
  };
}

/** Counted before they are decoded: many tiny parameters cost more than a few long ones. */
function decodeBounded(body: Buffer, maxParameters: number): Pair[] {
  let parts = 1;
  for (const byte of body) parts += byte === ampersand ? 1 : 0;
  if (parts > maxParameters)
    throw new Refusal('too-large', `The form has more than ${maxParameters} parameters.`);
  return decodeForm(body);
}

async function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new Refusal('request-timeout', `The body did not arrive within ${milliseconds / 1000} s.`));
  }, milliseconds);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The errors of express.raw, told apart by their `type`. */
function translate(error: unknown, limits: BodyLimits): unknown {
  const type = error instanceof Error && 'type' in error ? error.type : undefined;
  switch (type) {
    case 'entity.too.large':
      return new Refusal('too-large', `The form has more than ${limits.maxBodyBytes} bytes.`);
    case 'request.aborted':
      return new Refusal('caller-gone', 'The connection ended before the body was complete.');
    case 'request.size.invalid':
      return new Refusal('bad-request', 'The body is not as long as its Content-Length says.');
    default:
      return error;
  }
}
