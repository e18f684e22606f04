import type { Request } from 'express';
import { z } from 'zod';
import { parseValue } from '../../config/parse-value.ts';
import { findingsOf } from '../../config/problem.ts';
import { parseJson } from '../../util/text.ts';
import { type FaultRule, faultRule } from '../fault-rule.ts';
import type { ActiveFault } from '../fault-rules.ts';
import { checkOperation } from '../scenario-rules.ts';
import type { Simulator } from '../simulator.ts';
import { stateParts } from '../state.ts';
import { AdminError } from './admin-error.ts';
import { changeKeys, keysBody, shownKeys } from './keys.ts';

const invalidBody = 'The body is not valid. See docs/simulator.md';

/** An endpoint of the admin API. */
interface Endpoint {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With variable segments as `{name}`. */
  readonly path: string;
  /** Of the request; anything that is not read is an error. */
  readonly reads?: 'body' | 'query';
  readonly summary: string;
  /** Default: 200, or 204 without a body. */
  readonly status?: 201;
  /** @returns the body of the response, if it has one @throws AdminError for invalid input */
  run(simulator: Simulator, request: Request): unknown;
}

const journalQuery = z.strictObject({
  operation: z.string().optional(),
  login: z.string().optional(),
  after: z
    .string()
    .regex(/^\d{1,15}$/, 'must be the ID of an entry')
    .transform(Number)
    .default(0),
});
const nothing = z.strictObject({});
const resetBody = z.strictObject({ parts: z.array(z.enum(stateParts)).min(1).optional() });
const clockBody = z.strictObject({
  offsetSeconds: z.int({ error: 'must be a whole number of seconds' }).min(-1_000_000_000).max(1_000_000_000),
});

/** Every endpoint. docs/simulator.md has a table that is generated from it. */
export const endpoints: readonly Endpoint[] = [
  {
    method: 'GET',
    path: '/',
    summary: 'This list of endpoints.',
    run: () => endpoints.map(({ method, path, summary }) => ({ method, path, summary })),
  },
  {
    method: 'GET',
    path: '/journal',
    reads: 'query',
    summary:
      'The last 1,000 requests, oldest first. Query: `operation`, `login`, `after` (only entries with a higher `id`).',
    run: ({ journal }, request) => {
      const { operation, login, after } = queryOf(journalQuery, request);
      const entries = journal
        .entries()
        .filter((entry) => entry.id > after)
        .filter((entry) => operation === undefined || entry.operation === operation)
        .filter((entry) => login === undefined || entry.login === login);
      return { total: journal.total, entries };
    },
  },
  {
    method: 'POST',
    path: '/reset',
    reads: 'body',
    summary: `Returns to the start. Body: \`parts\`, a list of ${stateParts.map((part) => `\`${part}\``).join(', ')}; all without it.`,
    run: (simulator, request) => simulator.reset(bodyOf(resetBody, request).parts),
  },
  {
    method: 'GET',
    path: '/faults',
    summary: 'The faults that apply now, in the order in which they are tried.',
    run: ({ faults }) => faults.list().map(shownFault),
  },
  {
    method: 'POST',
    path: '/faults',
    reads: 'body',
    summary: 'Adds a fault, before those of the scenario. Body: the fields below.',
    status: 201,
    run: (simulator, request) => {
      const added = simulator.faults.add(knownNames(bodyOf(faultRule, request), simulator));
      if (added === undefined) {
        throw new AdminError(409, 'There are too many faults. Remove some with DELETE /faults');
      }
      return shownFault(added);
    },
  },
  {
    method: 'DELETE',
    path: '/faults',
    summary: 'Removes all faults, also those of the scenario.',
    run: ({ faults }) => faults.clear(),
  },
  {
    method: 'DELETE',
    path: '/faults/{id}',
    summary: 'Removes one fault.',
    run: ({ faults }, { params: { id } }) => {
      if (!/^\d{1,15}$/.test(String(id)) || !faults.remove(Number(id)))
        throw new AdminError(404, 'Unknown fault. GET /faults lists them');
    },
  },
  {
    method: 'GET',
    path: '/clock',
    summary: 'The clock offset.',
    run: ({ clock }) => shownClock(clock),
  },
  {
    method: 'PUT',
    path: '/clock',
    reads: 'body',
    summary:
      'Sets the clock offset. Body: `offsetSeconds`, added to the clock that timestamps are compared with and to the `Date` header.',
    run: ({ clock }, request) => {
      clock.offsetSeconds = bodyOf(clockBody, request).offsetSeconds;
      return shownClock(clock);
    },
  },
  {
    method: 'GET',
    path: '/keys',
    summary:
      'The keys that are accepted now, by login: the number of control keys, the fingerprints of public keys.',
    run: ({ accounts }) =>
      Object.fromEntries([...accounts.list()].map(([login, keys]) => [login, shownKeys(keys)])),
  },
  {
    method: 'POST',
    path: '/keys/{login}',
    reads: 'body',
    summary: 'Accepts more keys of a login. Body: `controlKeys`, `publicKeys`.',
    run: (simulator, request) => keysChanged(simulator, request, 'add'),
  },
  {
    method: 'PUT',
    path: '/keys/{login}',
    reads: 'body',
    summary:
      'Accepts only these keys of a login from now on. Body as above; a kind that is absent stays as it is.',
    run: (simulator, request) => keysChanged(simulator, request, 'replace'),
  },
];

/** @throws AdminError also for input that the endpoint does not read */
export function runEndpoint(endpoint: Endpoint, simulator: Simulator, request: Request): unknown {
  if (endpoint.reads !== 'query') queryOf(nothing, request);
  if (endpoint.reads !== 'body') bodyOf(nothing, request);
  return endpoint.run(simulator, request);
}

/** A misspelled name would never match. */
function knownNames(rule: FaultRule, { operations, accounts }: Simulator): FaultRule {
  const { operation, login } = rule;
  const findings = findingsOf((report) => {
    checkOperation(operation, operations, ['operation'], report);
    if (login !== undefined && accounts.keysOf(login) === undefined)
      report(['login'], 'is not in the scenario: add it under logins, or correct it');
  });
  if (findings.length > 0) throw new AdminError(400, invalidBody, findings);
  return rule;
}

function shownFault({ id, rule, remaining }: ActiveFault) {
  const { times: _times, ...fields } = rule;
  return { id, ...fields, remaining };
}

function shownClock({ offsetSeconds, now }: Simulator['clock']) {
  return { offsetSeconds, time: new Date(now()).toISOString() };
}

function keysChanged({ accounts }: Simulator, request: Request, how: 'add' | 'replace') {
  return changeKeys(accounts, String(request.params['login']), bodyOf(keysBody, request), how);
}

/** The JSON body of a request. @throws AdminError that lists every problem by its path */
function bodyOf<T extends z.ZodType>(schema: T, request: Request): z.output<T> {
  return parse(schema, jsonOf(request), invalidBody);
}

/** @throws AdminError as {@link bodyOf} */
function queryOf<T extends z.ZodType>(schema: T, request: Request): z.output<T> {
  return parse(schema, { ...request.query }, 'The query is not valid. See docs/simulator.md');
}

function parse<T extends z.ZodType>(schema: T, value: unknown, detail: string): z.output<T> {
  const { data, findings } = parseValue(schema, value);
  if (data === undefined) throw new AdminError(400, detail, findings);
  return data;
}

/** An absent body is an empty object. */
function jsonOf(request: Request): unknown {
  const body: unknown = request.body;
  if (!Buffer.isBuffer(body) || body.length === 0) return {};
  if (request.is('application/json') === false) {
    throw new AdminError(415, "Send JSON with Content-Type: application/json, such as curl --json '{}'");
  }
  const value = parseJson(body.toString('utf8'));
  if (value !== undefined) return value;
  throw new AdminError(400, 'The body is not valid JSON. Check quotes, commas and brackets');
}
