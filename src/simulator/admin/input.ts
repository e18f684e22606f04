import type { Request } from 'express';
import { z } from 'zod';
import { errorMap, schemaFindings } from '../../config/zod-messages.ts';
import { AdminError } from './admin-error.ts';

export const invalidBody = 'The body is not valid. See docs/simulator.md';

/**
 * The JSON body of a request.
 *
 * @throws AdminError that lists every problem by its path
 */
export function bodyOf<T extends z.ZodType>(schema: T, request: Request): z.output<T> {
  return parse(schema, jsonOf(request), invalidBody);
}

/**
 * The query of a request.
 *
 * @throws AdminError as {@link bodyOf}
 */
export function queryOf<T extends z.ZodType>(schema: T, request: Request): z.output<T> {
  return parse(schema, { ...request.query }, 'The query is not valid. See docs/simulator.md');
}

function parse<T extends z.ZodType>(schema: T, value: unknown, detail: string): z.output<T> {
  const parsed = schema.safeParse(value, { error: errorMap });
  if (parsed.success) return parsed.data;
  const root = () => z.toJSONSchema(schema, { io: 'input', target: 'draft-7', unrepresentable: 'any' });
  throw new AdminError(400, detail, schemaFindings(parsed.error.issues, root));
}

/** An absent body is an empty object. The parser's message is dropped: it quotes the body. */
function jsonOf(request: Request): unknown {
  const body: unknown = request.body;
  if (!Buffer.isBuffer(body) || body.length === 0) return {};
  if (request.is('application/json') === false) {
    throw new AdminError(415, "Send JSON with Content-Type: application/json, such as curl --json '{}'");
  }
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new AdminError(400, 'The body is not valid JSON. Check quotes, commas and brackets');
  }
}
