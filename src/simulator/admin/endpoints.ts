import { createPublicKey } from 'node:crypto';
import type { Request } from 'express';
import { z } from 'zod';
import { parseValue } from '../../config/parse-value.ts';
import { type Finding, findingsOf } from '../../config/problem.ts';
import { Secret } from '../../secret.ts';
import { parseJson } from '../../util/text.ts';
import { faultRule } from '../faults.ts';
import { checkOperation } from '../scenario.ts';
import { fingerprintOf, type GatewayKeys } from '../signature.ts';
import type { Simulator } from '../simulator.ts';
import { stateParts } from '../state.ts';

/** An endpoint of the admin API. */
interface Endpoint {
  readonly summary: string;
  /** Default: 200, or 204 without a body. */
  readonly status?: 201;
  /** @returns the body of the response, if it has one @throws AdminError for invalid input */
  readonly run: (simulator: Simulator, request: Request) => unknown;
}

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

/** Of one kind and login. Every request is verified with all of them. */
const maxKeys = 20;
const tooMany = `must have at most ${maxKeys} keys`;

const controlKey = z
  .string()
  .min(1)
  .refine((text) => text.isWellFormed(), 'must be valid Unicode')
  .transform((text) => new Secret(text));

const publicKey = z.string().transform((pem, context) => {
  const fail = (message: string) => {
    context.addIssue(message);
    return z.NEVER;
  };
  if (/PRIVATE KEY-----/.test(pem))
    return fail('must be a public key, not a private one: openssl pkey -in private_key.pem -pubout');
  try {
    const key = createPublicKey(pem);
    return key.asymmetricKeyType === 'rsa' ? key : fail('must be an RSA public key');
  } catch {
    // Without the error of OpenSSL, which might quote the text.
    return fail('must be the PEM text of an RSA public key: -----BEGIN PUBLIC KEY-----');
  }
});

/** Keys of one login; a kind that is absent stays as it is. */
const keysBody = z
  .strictObject({
    controlKeys: z.array(controlKey).max(maxKeys, tooMany).optional(),
    publicKeys: z.array(publicKey).max(maxKeys, tooMany).optional(),
  })
  .refine(
    ({ controlKeys, publicKeys }) => controlKeys !== undefined || publicKeys !== undefined,
    'must have controlKeys or publicKeys',
  );
const nothing = z.strictObject({});
const resetBody = z.strictObject({ parts: z.array(z.enum(stateParts)).min(1).optional() });
const clockBody = z.strictObject({
  offsetSeconds: z.int({ error: 'must be a whole number of seconds' }).min(-1_000_000_000).max(1_000_000_000),
});

/** By method and path, with variable segments as `{name}`. */
const table: Readonly<Record<string, Endpoint>> = {
  'GET /': {
    summary: 'This list of endpoints.',
    run: read(nothing, () => endpoints.map(({ method, path, summary }) => ({ method, path, summary }))),
  },
  'GET /journal': {
    summary: 'The last 1,000 requests, oldest first.',
    run: read(nothing, ({ journal }) => ({ total: journal.total, entries: journal.entries() })),
  },
  'POST /reset': {
    summary: `Returns to the start. Body: \`parts\`, of ${stateParts.map((part) => `\`${part}\``).join(', ')}; without it all.`,
    run: read(resetBody, (simulator, { parts }) => simulator.reset(parts)),
  },
  'GET /faults': {
    summary: 'The faults, in the order in which they are tried.',
    run: read(nothing, ({ faults }) => faults.list()),
  },
  'POST /faults': {
    summary: 'Adds a fault. Body: its fields.',
    status: 201,
    run: read(faultRule, ({ keys, faults, operations }, rule) => {
      // A misspelled name would never match.
      const findings = findingsOf((report) => {
        checkOperation(rule.operation, operations, ['operation'], report);
        if (rule.login !== undefined && !keys.has(rule.login))
          report(['login'], 'is not in the scenario: add it under logins, or correct it');
      });
      if (findings.length > 0) throw invalid(findings);
      if (faults.add(rule)) return rule;
      throw new AdminError(409, 'There are too many faults. Remove them with DELETE /faults');
    }),
  },
  'DELETE /faults': {
    summary: 'Removes all, also those of the scenario.',
    run: read(nothing, ({ faults }) => faults.clear()),
  },
  'GET /clock': {
    summary: 'The clock offset.',
    run: read(nothing, ({ clock }) => shownClock(clock)),
  },
  'PUT /clock': {
    summary: 'Sets it. Body: `offsetSeconds`.',
    run: read(clockBody, ({ clock }, { offsetSeconds }) => {
      clock.offsetSeconds = offsetSeconds;
      return shownClock(clock);
    }),
  },
  'GET /keys': {
    summary: 'By login: the number of control keys, the fingerprints of public keys.',
    run: read(nothing, ({ keys }) =>
      Object.fromEntries([...keys].map(([login, accepted]) => [login, shownKeys(accepted)])),
    ),
  },
  'POST /keys/{login}': {
    summary: 'Accepts more keys. Body: `controlKeys`, `publicKeys`.',
    run: changeKeys((old, more = []) => {
      if (old.length + more.length <= maxKeys) return [...old, ...more];
      throw new AdminError(409, `A login has at most ${maxKeys} keys of a kind. Replace them with PUT`);
    }),
  },
  'PUT /keys/{login}': {
    summary: 'Accepts only these keys; an absent kind stays as it is.',
    run: changeKeys((old, others = old) => others),
  },
};

/** Every endpoint. docs/simulator.md has a table that is generated from it. */
export const endpoints = Object.entries(table).map(([request, endpoint]) => {
  const [method = '', path = ''] = request.split(' ');
  return { method, path, ...endpoint };
});

/** @param change of the keys of one kind, with those that are given */
function changeKeys(change: <T>(old: readonly T[], given: readonly T[] | undefined) => readonly T[]) {
  return read(keysBody, ({ keys }, given, { login = '' }) => {
    const old = keys.get(login);
    if (old === undefined) throw new AdminError(404, 'Unknown login. Add it to the scenario under logins');
    const accepted = {
      controlKeys: change(old.controlKeys, given.controlKeys),
      publicKeys: change(old.publicKeys, given.publicKeys),
    };
    keys.set(login, accepted);
    return shownKeys(accepted);
  });
}

/** The number of control keys, and SHA-256 of the public keys (SPKI, DER) in hexadecimal. */
function shownKeys({ controlKeys, publicKeys }: GatewayKeys) {
  return { controlKeys: controlKeys.length, publicKeys: publicKeys.map(fingerprintOf) };
}

function shownClock({ offsetSeconds, now }: Simulator['clock']) {
  return { offsetSeconds, time: new Date(now()).toISOString() };
}

/** @param segments the variable ones of the path */
type Run<T> = (simulator: Simulator, input: T, segments: Partial<Record<string, string>>) => unknown;

/** @param schema of the body; input that an endpoint does not read is an error that lists every problem by its path */
function read<T extends z.ZodType>(schema: T, run: Run<z.output<T>>): Endpoint['run'] {
  return (simulator, request) => {
    if (request.originalUrl.includes('?'))
      throw new AdminError(400, 'No endpoint reads a query. Leave it out');
    const { data, findings } = parseValue(schema, jsonOf(request));
    if (data === undefined) throw invalid(findings);
    const segments = Object.entries(request.params).map(([name, segment]) => [name, String(segment)]);
    return run(simulator, data, Object.fromEntries(segments));
  };
}

function invalid(findings: readonly Finding[]): AdminError {
  return new AdminError(400, 'The body is not valid. See docs/simulator.md', findings);
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
