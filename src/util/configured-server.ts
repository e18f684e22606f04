import type { Agent } from 'node:http';
import { createAgent, type MinVersion } from './agent.ts';
import { readConsistent } from './consistent-read.ts';
import { createEgressProxy, type EgressProxySettings } from './egress-proxy.ts';
import { errorCode } from './error-code.ts';
import type { TlsObserver } from './tls-observer.ts';

const maxBytes = 262_144;
/** Milliseconds to establish a tunnel through the egress proxy. */
const tunnelTimeout = 2_500;

/** How a server of the configuration is reached. */
export interface ServerAccess {
  readonly caFile?: string | undefined;
  readonly minVersion?: MinVersion | undefined;
  readonly egressProxy?: (EgressProxySettings & { readonly caFile?: string | undefined }) | undefined;
  readonly observer?: TlsObserver | undefined;
}

/**
 * An agent for single requests to a server. The files are read now, since certificates in them are replaced.
 *
 * @throws Error with a message for operators
 */
export async function agentFor(
  url: URL,
  { caFile, minVersion, egressProxy, observer }: ServerAccess,
): Promise<Agent> {
  const ca = caFile === undefined ? {} : { ca: await readText(caFile) };
  const proxyCa = egressProxy?.caFile === undefined ? undefined : await readText(egressProxy.caFile);
  const proxy = createEgressProxy(egressProxy, proxyCa, tunnelTimeout);
  return createAgent(url.href, { ...ca, minVersion, observer }, { keepAlive: false }, proxy);
}

/** Only a regular file: a read of another one may never end. @throws Error with a message for operators */
export async function readText(file: string): Promise<string> {
  const { contents } = await readConsistent([file], { maximumBytes: maxBytes }).catch((error: unknown) => {
    const cause = errorCode(error) ?? (error instanceof Error ? error.message : 'unknown error');
    throw new Error(`${file}: cannot be read (${cause})`);
  });
  if (contents[0] === undefined) throw new Error(`${file}: does not exist`);
  return contents[0].toString('utf8');
}
