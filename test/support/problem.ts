import { expect } from '@jest/globals';
import type { Outcome, Reason } from '../../src/errors.ts';
import type { Edge } from './harness.ts';
import type { RawResponse } from './response-reader.ts';

/** Status and outcome of every reason, as documented for callers; independent of the error table. */
export const promised: Readonly<Record<Reason, readonly [status: number, outcome: Outcome]>> = {
  'method-not-allowed': [405, 'not-sent'],
  'unsupported-media-type': [415, 'not-sent'],
  'too-large': [413, 'not-sent'],
  'malformed-form': [400, 'not-sent'],
  'query-not-allowed': [400, 'not-sent'],
  'reserved-parameter': [400, 'not-sent'],
  'parameter-invalid': [400, 'not-sent'],
  'login-missing': [400, 'not-sent'],
  'login-conflict': [400, 'not-sent'],
  'bad-request': [400, 'not-sent'],
  'head-too-large': [431, 'not-sent'],
  'request-timeout': [408, 'not-sent'],
  'caller-gone': [499, 'not-sent'],
  'caller-unknown': [401, 'not-sent'],
  'issuer-unavailable': [503, 'not-sent'],
  'caller-limit': [429, 'not-sent'],
  'not-allowed': [403, 'not-sent'],
  'web-page': [403, 'not-sent'],
  'unknown-host': [421, 'not-sent'],
  'unknown-route': [404, 'not-sent'],
  pipelined: [503, 'not-sent'],
  overloaded: [503, 'not-sent'],
  'shutting-down': [503, 'not-sent'],
  'key-source-unavailable': [503, 'not-sent'],
  'signing-unavailable': [503, 'not-sent'],
  'audit-unavailable': [503, 'not-sent'],
  'claims-unavailable': [503, 'not-sent'],
  'duplicate-payment': [409, 'unknown'],
  'order-id-reused': [422, 'not-sent'],
  'key-missing': [502, 'not-sent'],
  'key-unusable': [502, 'not-sent'],
  'gateway-unreachable': [502, 'not-sent'],
  'gateway-timeout': [504, 'unknown'],
  'gateway-reset': [502, 'unknown'],
  'gateway-reply-invalid': [502, 'unknown'],
  internal: [500, 'not-sent'],
};

const isReason = (name: string): name is Reason => Object.hasOwn(promised, name);
export const reasons: readonly Reason[] = Object.keys(promised).filter(isReason);

/** Its response has `Retry-After`. */
export const saysWhenToRetry = (reason: Reason): boolean => [429, 503].includes(promised[reason][0]);

/** These bytes get this problem response; then the connection is closed, and nothing reaches the gateway. */
export async function expectRejectedAndClosed(
  { connect, gateway }: Edge,
  bytes: string | Buffer,
  reason: Reason,
): Promise<RawResponse> {
  const connection = await connect();
  const response = await connection.send(bytes).response();
  expectProblem(response, reason);
  expect(await connection.ended()).toBe('FIN');
  expect(gateway.requests).toHaveLength(0);
  return response;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Expects every part of one of Countersign's own error responses (RFC 9457, RFC 9209, README). */
export function expectProblem(response: RawResponse, reason: Reason): Record<string, unknown> {
  const text = response.body.toString();
  const problem = JSON.parse(text);
  const [status, outcome] = promised[reason];
  expect(text).toMatch(/\}\n$/);
  expect(problem).toEqual({
    type: `urn:countersign:error:${reason}`,
    title: expect.stringMatching(/^[A-Z].+[^.]$/),
    status,
    detail: expect.stringMatching(/^["A-Z0-9].+\.$/),
    reason,
    outcome,
    requestId: expect.stringMatching(uuid),
  });
  expect(response.status).toBe(status);
  expect(response.headers).toMatchObject({
    'content-type': 'application/problem+json',
    'cache-control': 'no-store',
    'x-request-id': problem.requestId,
    'countersign-outcome': outcome,
    'proxy-status': expect.stringMatching(new RegExp(`^countersign; error=[a-z_]+; details="${reason}"$`)),
  });
  expect(response.headers['retry-after'] !== undefined).toBe(saysWhenToRetry(reason));
  return problem;
}
