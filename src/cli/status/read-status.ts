import { errorCode } from '../../errors.ts';
import { type AgentTls, createAgent } from '../../net/agent.ts';
import { type NetworkFailure, networkFailureOf } from '../../net/network-failure.ts';
import { NoResponse, sendSmallRequest } from '../../net/small-request.ts';
import { type Status, statusSchema } from '../../observability/status/schema.ts';
import { packageVersion } from '../../service/package-info.ts';
import { entriesOf, parseJson, printable } from '../../util/text.ts';
import { CliError } from '../shared/cli-error.ts';

export interface StatusServer {
  /** Of `/status.json`. */
  readonly url: URL;
  /** Absent: without credentials. */
  readonly token: string | undefined;
  /** For an https URL. */
  readonly tls: AgentTls;
}

/** Milliseconds for the request and its whole response. */
const timeout = 5_000;

/** More than 10,000 keys or callers. */
const maxResponseBytes = 8 * 1024 * 1024;

/**
 * The status of an instance, checked against the schema. Texts in it may hold any character.
 *
 * @throws CliError
 */
export async function readStatus({ url, token, tls }: StatusServer): Promise<Status> {
  /** @param advice why there is no status, and what to do: continues a sentence that begins with the address */
  const noStatus = (advice: string): CliError => new CliError(`${url.origin} ${printable(advice)}`);
  const agent = createAgent(url.href, tls, { keepAlive: false });
  const authorization = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const headers = { Accept: 'application/json', ...authorization };
  const way = { agent, timeout, maxResponseBytes };
  const { status, text } = await sendSmallRequest({ method: 'GET', url, headers }, way).catch(
    (error: unknown) => {
      throw error instanceof NoResponse ? noStatus(failureAdvice(error)) : error;
    },
  );
  if (status !== 200) throw noStatus(statusAdvice(status, token !== undefined));
  const value = parseJson(text);
  if (value === undefined) throw noStatus('did not respond with JSON. Is it the admin port? Check --url.');
  const { data, error } = statusSchema.safeParse(value);
  if (data !== undefined) return data;
  const place = error.issues[0]?.path.join('.') ?? '';
  throw noStatus(
    `sent JSON that is no status as version ${packageVersion()} of this command knows it (see ${place === '' ? 'its fields' : place}). It is ${versionOf(value)}: use the command of the same version, such as that of its image.`,
  );
}

/** Continues a sentence that begins with the address. */
function failureAdvice({ reason, cause }: NoResponse): string {
  if (reason === 'too-large')
    return 'sent too long a response for a status. Is it the admin port of Countersign? Check --url.';
  if (reason === 'late')
    return `did not respond within ${timeout / 1000} s. Is it overloaded, or another server? Check --url.`;
  const code = errorCode(cause) ?? 'no code';
  const advice: Partial<Record<NetworkFailure, string>> = {
    refused: 'refused the connection. Is the instance running, and is this admin.port? Check --url.',
    dns: 'has an unknown host name. Check --url.',
    tls: `has no valid certificate (${code}). Check --url and --ca-file.`,
    timeout: 'cannot be reached. Check --url, and firewalls and network policies on the way.',
  };
  return (
    advice[networkFailureOf(cause)] ??
    `did not respond with HTTP (${code}). Is it the admin port of Countersign? Check --url.`
  );
}

function statusAdvice(status: number, hasToken: boolean): string {
  const advice: Readonly<Record<number, string>> = {
    401: hasToken
      ? 'rejected the token. Compare its SHA-256 with admin.tokenSha256 of the configuration in effect.'
      : 'requires a token. Give it with --token-file FILE.',
    403: 'requires a client certificate of admin.tls.clientCaFile. Give it with --cert-file FILE and --key-file FILE.',
    404: 'has no status page. Beyond loopback it is off unless admin.tokenSha256 is set; or this is not the admin port: check --url.',
    421: 'does not accept this host name. Use an IP address in --url, or add the name to admin.allowedHosts.',
  };
  return advice[status] ?? `responded with HTTP status ${status} instead of 200. Check --url.`;
}

function versionOf(value: unknown): string {
  const version = entriesOf(entriesOf(value)['process'])['version'];
  return typeof version === 'string' ? `version ${version.slice(0, 32)}` : 'of an unknown version';
}
