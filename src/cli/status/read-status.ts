import { errorCode } from '../../errors.ts';
import { type AgentTls, createAgent } from '../../net/agent.ts';
import { type NetworkFailure, networkFailureOf } from '../../net/network-failure.ts';
import { NoResponse, type SmallResponse, sendSmallRequest } from '../../net/small-request.ts';
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

/** There is no status. @param advice why, and what to do: continues a sentence that begins with the address */
function noStatus({ url }: StatusServer, advice: string): CliError {
  return new CliError(`${url.origin} ${printable(advice)}`);
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
export async function readStatus(server: StatusServer): Promise<Status> {
  const response = await send(server);
  if (response.status !== 200) {
    throw noStatus(server, statusAdvice(response.status, server.token !== undefined));
  }
  return parse(response.text, server);
}

async function send(server: StatusServer): Promise<SmallResponse> {
  const { url, token, tls } = server;
  const agent = createAgent(url.href, tls, { keepAlive: false });
  const authorization = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const headers = { Accept: 'application/json', ...authorization };
  try {
    const way = { agent, timeout, maxResponseBytes };
    return await sendSmallRequest({ method: 'GET', url, headers }, way);
  } catch (error) {
    if (!(error instanceof NoResponse)) throw error;
    throw noStatus(server, failureAdvice(error));
  }
}

/** Continues a sentence that begins with the address. */
function failureAdvice({ reason, cause }: NoResponse): string {
  if (reason === 'too-large')
    return 'sent too long a response for a status. Is it the admin port of Countersign? Check --url.';
  if (reason === 'late')
    return `did not respond within ${timeout / 1000} s. Is it overloaded, or another server? Check --url.`;
  const advice: Partial<Record<NetworkFailure, string>> = {
    refused: 'refused the connection. Is the instance running, and is this admin.port? Check --url.',
    dns: 'has an unknown host name. Check --url.',
    tls: `has no valid certificate (${errorCode(cause)}). Check --url and --ca-file.`,
    timeout: 'cannot be reached. Check --url, and firewalls and network policies on the way.',
  };
  return (
    advice[networkFailureOf(cause)] ??
    `did not respond with HTTP (${errorCode(cause) ?? 'no code'}). Is it the admin port of Countersign? Check --url.`
  );
}

/** Continues a sentence that begins with the address. */
function statusAdvice(status: number, hasToken: boolean): string {
  if (status === 401) {
    return hasToken
      ? 'rejected the token. Compare its SHA-256 with admin.tokenSha256 of the configuration in effect.'
      : 'requires a token. Give it with --token-file FILE.';
  }
  const advice: Readonly<Record<number, string>> = {
    403: 'requires a client certificate of admin.tls.clientCaFile. Give it with --cert-file FILE and --key-file FILE.',
    404: 'has no status page. Beyond loopback it is off unless admin.tokenSha256 is set; or this is not the admin port: check --url.',
    421: 'does not accept this host name. Use an IP address in --url, or add the name to admin.allowedHosts.',
  };
  return advice[status] ?? `responded with HTTP status ${status} instead of 200. Check --url.`;
}

/** @throws CliError for anything but a status as this version knows it */
function parse(text: string, server: StatusServer): Status {
  const value = parseJson(text);
  if (value === undefined) {
    throw noStatus(server, 'did not respond with JSON. Is it the admin port? Check --url.');
  }
  const parsed = statusSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? 'its fields' : issue.path.join('.');
  throw noStatus(
    server,
    `sent JSON that is no status as version ${packageVersion()} of this command knows it (see ${place}). It is ${versionOf(value)}: use the command of the same version, such as that of its image.`,
  );
}

function versionOf(value: unknown): string {
  const version = entriesOf(entriesOf(value)['process'])['version'];
  return typeof version === 'string' ? `version ${version.slice(0, 32)}` : 'of an unknown version';
}
