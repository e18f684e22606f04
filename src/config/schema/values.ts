import { z } from 'zod';
import { environmentPattern, identifierCharacters, identifierPattern } from '../../identifiers.ts';
import { Secret } from '../../secret.ts';
import { wholeNumberIn } from '../../util/text.ts';
import { httpUrlSuchAs, isPlaintextRemote } from '../url.ts';

export function matching(pattern: RegExp, error: string) {
  return z.string().regex(pattern, error);
}

/** Node's timers hold at most 2^31 - 1 milliseconds, slightly more than 24 days. */
const maxDuration = 24 * 86_400_000;
const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `500ms`, `3s`, `15m`, `12h`, `7d` <-> milliseconds. */
export function duration(fallback: string) {
  const written = z
    .string({
      error: ({ input }) =>
        typeof input === 'number' ? 'must be a duration with a unit, such as 3s' : undefined,
    })
    .regex(/^\d{1,10}(ms|s|m|h|d)$/, 'must be a duration with a unit, such as 500ms, 3s, 15m, 12h or 7d')
    .refine((text) => !(milliseconds(text) > maxDuration), 'must be at most 24d');
  return z.codec(written, z.number(), { decode: milliseconds, encode: durationText }).prefault(fallback);
}

/** A duration above zero: Node would take zero as no timeout. */
export function timeout(fallback: string) {
  return duration(fallback).refine((value) => value > 0, 'must be more than zero');
}

function milliseconds(text: string): number {
  return Number.parseInt(text, 10) * (units[text.replace(/^\d+/, '')] ?? 0);
}

/** In the largest unit that needs no fraction. */
function durationText(value: number): string {
  const [unit, size] = Object.entries(units).findLast(([, size]) => value % size === 0) ?? ['ms', 1];
  return `${value / size}${unit}`;
}

/** Accepts digits in a string too, since a variable's value is always a string: `port: ${PORT}`. */
export function wholeNumber(minimum: number, maximum: number) {
  const fromDigits = (value: unknown) =>
    typeof value === 'string' ? (wholeNumberIn(value) ?? value) : value;
  const whole = z.number().refine(Number.isInteger, 'must be a whole number');
  return orText(whole.min(minimum).max(maximum), { type: 'integer', minimum, maximum }, fromDigits);
}

/** @param type of the number in a JSON Schema */
export function orText(
  number: z.ZodNumber,
  type: z.core.JSONSchema.BaseSchema,
  decode: (value: unknown) => unknown,
) {
  return z.codec(z.unknown().meta(type), z.unknown().pipe(number), { decode, encode: (value) => value });
}

export const count = wholeNumber(1, 1_000_000_000);
export const optionalCount = count.optional();
export const port = wholeNumber(0, 65_535);
export const flag = z.boolean().default(false);
export const text = z.string().min(1);
/** Without a scheme and a port; `_` is common in names of container networks. */
const hostName = /^(?!.{254})[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;
export const hostNames = z
  .array(matching(hostName, 'must be a host name without scheme and port'))
  .default([]);
/** Without quotes YAML reads a number. The value is what Node calls the version. */
export const minVersion = z
  .codec(
    z.literal(['1.2', '1.3', 1.2, 1.3], { error: 'must be 1.2 or 1.3' }),
    z.literal(['TLSv1.2', 'TLSv1.3']),
    {
      decode: (version) => `TLSv${version}` as const,
      encode: (version) => (version === 'TLSv1.2' ? '1.2' : '1.3'),
    },
  )
  .prefault('1.2')
  .describe('Lowest TLS version.');
/** Relative to the directory of the configuration file. */
export const filePath = z.string().min(1);
export const optionalFile = filePath.optional();
/** Written back, it is only a word in its place. */
export function secretIn(written: z.ZodString) {
  return z.codec(written, z.instanceof(Secret), {
    decode: (value) => new Secret(value),
    encode: () => 'hidden',
  });
}
export const secret = secretIn(z.string().min(1));

/** Logins and endpoints: valid as a path segment, but neither `.` nor `..`. */
export const identifier = matching(
  identifierPattern,
  `must be 1 to 128 of ${identifierCharacters} and not "." or ".."`,
);
export const environmentName = matching(
  environmentPattern,
  'must have a name of 1 to 32 of a-z 0-9 -, starting with a letter',
);
export const operationName = matching(
  /^[a-z][a-z0-9-]{0,63}$/,
  'must have a name of 1 to 64 of a-z 0-9 -, starting with a letter',
);

/** @param example of the server that the URL is of */
export function secureUrlSuchAs(example: string) {
  return httpUrlSuchAs(example).refine(
    (value) => !isPlaintextRemote(value),
    'must use https unless the host is loopback',
  );
}

/** The result has no prototype: a name from a request can only find entries of the file. */
export function dictionary<V extends z.ZodType>(key: z.ZodString, value: V) {
  return z.record(key, value).overwrite(withoutPrototype);
}

export function withoutPrototype<T extends object>(entries: T): T {
  const bare: T = Object.create(null);
  return Object.assign(bare, entries);
}

/** A proxy that all connections to one server go through. The server's address must use https. */
export const egressProxy = z
  .strictObject({
    url: httpUrlSuchAs('http://proxy.example:3128')
      .refine((value) => new URL(value).pathname === '/', 'must not have a path')
      .describe('http://host:port or https://host:port.'),
    caFile: optionalFile.describe('CA of an https: proxy.'),
    username: matching(
      /^[^\p{Cc}:]{1,255}$/u,
      'must be 1 to 255 characters without ":" and control characters',
    )
      .optional()
      .describe('For Basic authentication.'),
    password: secret.optional().describe('As ${NAME} from a variable.'),
    passwordFile: optionalFile.describe('Read for each connection.'),
  })
  .refine(
    ({ username, password, passwordFile }) =>
      username === undefined
        ? password === undefined && passwordFile === undefined
        : (password === undefined) !== (passwordFile === undefined),
    'requires username with exactly one of password and passwordFile, or none of them',
  )
  .refine(({ url, caFile }) => caFile === undefined || isHttps(url), {
    path: ['caFile'],
    message: 'requires an https: URL of the proxy',
  })
  .optional()
  .describe(
    'HTTP proxy through which all connections to this server are tunneled (CONNECT). Variables such as HTTPS_PROXY are not read.',
  );

export const tunnelRequiresHttps = 'must use https, because connections go through an egressProxy';

/** Whether a server may be reached this way: through a tunnel, only TLS hides the requests from the proxy. */
export function isFitForTunnel(address: string, proxy: unknown): boolean {
  return proxy === undefined || !URL.canParse(address) || isHttps(address);
}

function isHttps(url: string): boolean {
  return new URL(url).protocol === 'https:';
}

/** From the most lines to none. */
export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export type LogLevel = (typeof logLevels)[number];
