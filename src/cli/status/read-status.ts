import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import { hostOf, isLoopback } from '../../config/url.ts';
import { errorCode } from '../../errors.ts';
import { type AgentTls, createAgent } from '../../net/agent.ts';
import { type NetworkFailure, networkFailureOf } from '../../net/network-failure.ts';
import { NoResponse, type SmallResponse, sendSmallRequest } from '../../net/small-request.ts';
import { type Status, statusSchema } from '../../observability/status/schema.ts';
import { packageVersion } from '../../util/package-info.ts';
import { abortable } from '../../util/promises.ts';
import { entriesOf, parseJson, printable } from '../../util/text.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { type AllInstances, compareInstances, type InstanceReading } from './compare-instances.ts';

export interface StatusServer {
  /** Of `/status.json`. */
  readonly url: URL;
  /** Absent: without credentials. */
  readonly token: string | undefined;
  /** For an https URL. */
  readonly tls: AgentTls;
  /** The option that gave the address, for advice. */
  readonly option?: '--all';
}

/** There is no status. */
class StatusError extends CliError {
  /** Why, and what to do: continues a sentence that begins with the address. Plain ASCII, without the token. */
  readonly advice: string;

  constructor({ url, option }: StatusServer, advice: string) {
    const text = printable(advice.replaceAll('--url', option ?? '--url'));
    super(`${url.origin} ${text}`);
    this.advice = text;
  }
}

interface StatusClientOptions {
  /** Milliseconds for each request and its whole response. */
  readonly timeout: number;
  /** Ends the requests. */
  readonly signal?: AbortSignal | undefined;
}

/** More than 10,000 keys or callers. */
const maxResponseBytes = 8 * 1024 * 1024;

/**
 * The status of an instance, checked against the schema. Texts in it may hold any character.
 *
 * @throws StatusError
 */
export async function readStatus(server: StatusServer, options: StatusClientOptions): Promise<Status> {
  const response = await send(server, options);
  if (response.status !== 200) {
    throw new StatusError(server, statusAdvice(response.status, server.token !== undefined));
  }
  return parse(response.text, server);
}

async function send(server: StatusServer, { timeout, signal }: StatusClientOptions): Promise<SmallResponse> {
  const { url, token, tls } = server;
  const agent = createAgent(url.href, tls, { keepAlive: false });
  const authorization = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const headers = { Accept: 'application/json', ...authorization };
  try {
    const way = { agent, timeout, stopped: signal, maxResponseBytes };
    return await sendSmallRequest({ method: 'GET', url, headers }, way);
  } catch (error) {
    if (!(error instanceof NoResponse)) throw error;
    throw new StatusError(server, failureAdvice(error, timeout));
  }
}

/** Continues a sentence that begins with the address. */
function failureAdvice({ reason, cause }: NoResponse, timeout: number): string {
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
      : 'requires a token. Give it with --token-file FILE or --token-env NAME.';
  }
  const advice: Readonly<Record<number, string>> = {
    403: 'requires a client certificate of admin.tls.clientCaFile. Give it with --cert-file FILE and --key-file FILE.',
    404: 'has no status page. Beyond loopback it is off unless admin.tokenSha256 is set; or this is not the admin port: check --url.',
    421: 'does not accept this host name. Use an IP address in --url, or add the name to admin.allowedHosts.',
  };
  return advice[status] ?? `responded with HTTP status ${status} instead of 200. Check --url.`;
}

/** @throws StatusError for anything but a status as this version knows it */
function parse(text: string, server: StatusServer): Status {
  const value = parseJson(text);
  if (value === undefined) {
    throw new StatusError(server, 'did not respond with JSON. Is it the admin port? Check --url.');
  }
  const parsed = statusSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? 'its fields' : issue.path.join('.');
  throw new StatusError(
    server,
    `sent JSON that is no status as version ${packageVersion()} of this command knows it (see ${place}). It is ${versionOf(value)}: use the command of the same version, such as that of its image.`,
  );
}

function versionOf(value: unknown): string {
  const version = entriesOf(entriesOf(value)['process'])['version'];
  return typeof version === 'string' ? `version ${version.slice(0, 32)}` : 'of an unknown version';
}

/** The instances to read. */
export interface AllSettings {
  /** `/status.json` of an instance each, or of a name with an address for each instance. */
  readonly urls: readonly URL[];
  /** Without its URL. */
  readonly access: Omit<StatusServer, 'url'>;
  /** Sends the token also without TLS beyond loopback. */
  readonly allowPlaintext: boolean;
}

interface ReadAllOptions extends StatusClientOptions {
  /** All addresses of a host name. */
  readonly resolve: (host: string) => Promise<readonly LookupAddress[]>;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}

const maxInstances = 200;
/** Each response may have 8 MiB. */
const maxConcurrent = 16;

/**
 * Reads the status of all instances. One without a status is part of the result.
 *
 * @throws CliError if a name has no address, there are too many, or the token would be sent in plain text
 */
export async function readAll(settings: AllSettings, options: ReadAllOptions): Promise<AllInstances> {
  const servers = await serversOf(settings, options);
  const readings: InstanceReading[] = [];
  const queue = servers.entries();
  const work = async (): Promise<void> => {
    for (const [index, server] of queue) readings[index] = await read(server, options);
  };
  await Promise.all(Array.from({ length: maxConcurrent }, work));
  return compareInstances(readings, new Date(options.clock()).toISOString());
}

/** Of each address once. */
async function serversOf(settings: AllSettings, options: ReadAllOptions): Promise<readonly StatusServer[]> {
  const found = new Map<string, StatusServer>();
  for (const url of settings.urls) {
    for (const server of await serversAt(url, settings, options)) found.set(server.url.origin, server);
  }
  if (found.size > maxInstances) {
    throw new CliError(
      `--all names ${found.size} instances; at most ${maxInstances} can be shown. Name a part of them.`,
    );
  }
  const servers = [...found.values()];
  if (servers.length === 0) throw new CliError('--all names no instance');
  const plain = servers.find(({ url }) => url.protocol === 'http:' && !isLoopback(hostOf(url)));
  if (plain !== undefined && settings.access.token !== undefined && !settings.allowPlaintext) {
    throw new CliError(
      `the token would be sent in plain text to ${plain.url.host}. Use https with admin.tls, or --allow-plaintext if the network is trusted.`,
      exitCode.usage,
    );
  }
  return servers;
}

/** Certificates are verified with the name that was given, whatever address it has. */
async function serversAt(
  url: URL,
  { access }: AllSettings,
  options: ReadAllOptions,
): Promise<readonly StatusServer[]> {
  const host = hostOf(url);
  if (isIP(host) !== 0) return [{ ...access, url }];
  const addresses = await addressesOf(host, options);
  const serverName = access.tls.serverName ?? host;
  return addresses.map(({ address, family }) => {
    const own = new URL(url);
    own.hostname = family === 6 ? `[${address}]` : address;
    return { ...access, url: own, tls: { ...access.tls, serverName } };
  });
}

/** Of one family, since an instance may have an address of each. */
async function addressesOf(
  host: string,
  { resolve, timeout, signal }: ReadAllOptions,
): Promise<readonly LookupAddress[]> {
  const deadline = AbortSignal.timeout(timeout);
  const ended = signal === undefined ? deadline : AbortSignal.any([deadline, signal]);
  const all = await abortable(resolve(host), ended).catch((error: unknown) => {
    const failure = deadline.aborted ? `within ${timeout / 1000} s` : `(${errorCode(error)})`;
    const cause = errorCode(error) === 'ENOTFOUND' ? 'has no address' : `cannot be looked up ${failure}`;
    throw new CliError(
      `${host} ${cause}. Is it the name of the headless Service, and is an instance running?`,
    );
  });
  return all.filter(({ family }) => family === all[0]?.family);
}

async function read(server: StatusServer, options: ReadAllOptions): Promise<InstanceReading> {
  const { clock } = options;
  const address = server.url.host;
  const sentAt = clock();
  try {
    const status = await readStatus(server, options);
    const received = clock();
    const uncertainty = Math.max(0, received - sentAt) / 2_000;
    const clockAhead = (Date.parse(status.at) - received) / 1000 + uncertainty;
    return { address, status, clockAhead, uncertainty };
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    return { address, problem: error.advice };
  }
}
