import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { Config } from '../../config/schema.ts';
import { ProxyError } from '../../errors.ts';
import { resolveLogin } from '../../gateway/login.ts';
import { validateParameters } from '../../gateway/parameters.ts';
import { createRouter, type Destination } from '../../gateway/router.ts';
import { usableKeys } from '../../keys/ring.ts';
import { decodeForm } from '../../oauth1/form.ts';
import { methods } from '../../oauth1/methods.ts';
import type { Unsigned } from '../../oauth1/sign.ts';
import { readKeyRingOnce } from '../../server/key-source.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { messageOf, parseOptions } from '../shared/parse-options.ts';
import { withConfig } from '../shared/with-config.ts';
import { compareBaseStrings } from './diff.ts';
import { explanation } from './render.ts';

const usage = `Usage: countersign explain --target PATH [--form FILE] [options]

Shows how a form is signed, step by step. Nothing is sent. Card data is masked.

  --target PATH    as it is posted to the proxy, such as /sandbox/gw/api/v4/transfer/1234
  --form FILE      the form as it is posted (default: standard input)
  --config FILE    the configuration (default: the embedded one, with throw-away keys)
  --login LOGIN    stands for the header Countersign-Login
  --compare FILE    somebody else's base string: shows the first byte that differs, exit code 1 if one does;
                   nonce and timestamp are taken from it
  --nonce TEXT     instead of a random one
  --timestamp N    instead of now, in seconds
  --curl           prints a command that sends the request straight to the gateway
  --show-values    does not mask card data
  --help           prints this`;

const options = {
  target: { type: 'string' },
  form: { type: 'string' },
  config: { type: 'string' },
  login: { type: 'string' },
  compare: { type: 'string' },
  nonce: { type: 'string' },
  timestamp: { type: 'string' },
  curl: { type: 'boolean', default: false },
  'show-values': { type: 'boolean', default: false },
} as const;

interface ExplainRequest {
  readonly target: string;
  readonly body: Buffer;
  readonly login: string | undefined;
  readonly expected: string | undefined;
  readonly nonce: string;
  /** Seconds. */
  readonly timestamp: number;
  readonly curl: boolean;
  readonly showValues: boolean;
}

/** Gives the exit code: 1 where the base string is not the expected one, or the request would be refused. */
export async function explain(argv: readonly string[], io: Io): Promise<number> {
  const read = parseOptions('explain', argv, options, usage, io);
  if ('exit' in read) return read.exit;
  const { values } = read;
  const { target, timestamp } = values;
  if (target === undefined || (timestamp !== undefined && !/^[1-9]\d{0,11}$/.test(timestamp))) {
    io.err(
      'countersign explain: --target PATH is needed, and --timestamp takes seconds\nSee: countersign explain --help',
    );
    return exitCode.usage;
  }
  try {
    const body =
      values.form === undefined ? Buffer.from(await text(process.stdin)) : await readFile(values.form);
    const expected =
      values.compare === undefined ? undefined : (await readFile(values.compare, 'utf8')).trim();
    const wanted = {
      target,
      body: withoutLastLineFeed(body),
      login: values.login,
      expected,
      nonce: values.nonce ?? signedWith(expected, 'oauth_nonce') ?? randomBytes(16).toString('hex'),
      timestamp: Number(
        timestamp ?? signedWith(expected, 'oauth_timestamp') ?? Math.floor(Date.now() / 1000),
      ),
      curl: values.curl,
      showValues: values['show-values'],
    };
    return await withConfig(values.config, io, (config) => explainWith(config, wanted, io));
  } catch (error) {
    io.err(
      error instanceof ProxyError
        ? `It would be refused: ${error.reason}. ${error.detail}`
        : messageOf(error),
    );
    return exitCode.failed;
  }
}

async function explainWith(config: Config, wanted: ExplainRequest, io: Io): Promise<number> {
  const form = decodeForm(wanted.body);
  const destination = createRouter(config)(wanted.target);
  const login = resolveLogin(destination, form, wanted.login);
  validateParameters(destination.operation, form);
  const unsigned: Unsigned = {
    method: 'POST',
    url: destination.url,
    form,
    signatureMethod: destination.operation.signature,
    consumerKey: login,
    nonce: wanted.nonce,
    timestamp: wanted.timestamp,
  };
  const key = await currentKey(config, destination, login, io);
  const { lines, baseString } = await explanation({ ...wanted, destination, login, unsigned, key });
  for (const line of lines) io.out(line);
  if (wanted.expected === undefined) return exitCode.done;
  const { equal, lines: comparison } = compareBaseStrings(baseString, wanted.expected);
  for (const line of comparison) io.out(line);
  return equal ? exitCode.done : exitCode.failed;
}

/** The key that a first request would be signed with. */
async function currentKey(config: Config, { environment, operation }: Destination, login: string, io: Io) {
  const address = { environment, login };
  const ring = (await readKeyRingOnce(config.keys, address, (problem) => io.err(problem))) ?? [];
  const [newest] = usableKeys(
    address,
    ring,
    methods[operation.signature].kind,
    Date.now(),
    config.keys.rotationGracePeriod,
  );
  return newest;
}

/** A parameter of somebody else's base string, in which `=` is `%3D` and `&` is `%26`. */
function signedWith(expected: string | undefined, name: string): string | undefined {
  return new RegExp(`(?:%26|&)${name}%3D([\\w.~-]+)`).exec(expected ?? '')?.[1];
}

/** Editors end a file with one; no form does. */
function withoutLastLineFeed(body: Buffer): Buffer {
  const end = body.at(-1) === 0x0a ? (body.at(-2) === 0x0d ? -2 : -1) : undefined;
  return body.subarray(0, end);
}
