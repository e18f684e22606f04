import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import { hostOf, isLoopback } from '../../config/url.ts';
import { errorCode } from '../../util/error-code.ts';
import { abortable } from '../../util/promises.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode } from '../shared/io.ts';
import { readStatus, StatusError, type StatusServer } from './client.ts';
import { type AllInstances, compareInstances, type InstanceReading } from './instances.ts';

/** The instances to read. */
export interface AllSettings {
  /** `/status.json` of an instance each, or of a name with an address for each instance. */
  readonly urls: readonly URL[];
  /** Without its URL. */
  readonly access: Omit<StatusServer, 'url'>;
  /** Sends the token also without TLS beyond loopback. */
  readonly allowPlaintext: boolean;
}

interface ReadAllOptions {
  /** All addresses of a host name. */
  readonly resolve: (host: string) => Promise<readonly LookupAddress[]>;
  /** Milliseconds for each instance. */
  readonly timeout: number;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly signal?: AbortSignal | undefined;
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
    if (signal?.aborted) return [];
    const failure = deadline.aborted ? `within ${timeout / 1000} s` : `(${errorCode(error)})`;
    const cause = errorCode(error) === 'ENOTFOUND' ? 'has no address' : `cannot be looked up ${failure}`;
    throw new CliError(
      `${host} ${cause}. Is it the name of the headless Service, and is an instance running?`,
    );
  });
  return all.filter(({ family }) => family === all[0]?.family);
}

async function read(
  server: StatusServer,
  { clock, timeout, signal }: ReadAllOptions,
): Promise<InstanceReading> {
  const address = server.url.host;
  const sentAt = clock();
  try {
    const status = await readStatus(server, { timeout, signal });
    const received = clock();
    const uncertainty = Math.max(0, received - sentAt) / 2_000;
    const clockAhead = (Date.parse(status.at) - received) / 1000 + uncertainty;
    return { address, status, clockAhead, uncertainty };
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    return { address, problem: error.advice };
  }
}
