import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent, type AgentOptions as HttpsAgentOptions } from 'node:https';
import { type ConnectionOptions, type SecureContextOptions, TLSSocket } from 'node:tls';
import { keepsResponsesApart } from '../preflight.cjs';
import { readText } from '../read-files.ts';
import { type EgressProxySettings, tunnelThrough } from './egress-proxy.ts';
import { maxCertificateBytes } from './tls-files.ts';
import { observeTls, type TlsObserver } from './tls-observer.ts';
import { type MinVersion, tlsPolicy } from './tls-policy.ts';

/** PEM texts; the public CAs where `ca` is absent. */
export interface AgentTls extends Pick<HttpsAgentOptions, 'ca' | 'cert' | 'key'> {
  /** As `ca`, for an `https:` egress proxy. */
  readonly proxyCa?: string | undefined;
  /** Also for an `https:` egress proxy. */
  readonly minVersion?: MinVersion | undefined;
  readonly observer?: TlsObserver | undefined;
  /** The certificate of the server: no other is accepted, and this one whatever names it has. */
  readonly pinned?: string | undefined;
}

/** Without a limit to the connections in use: a request that waits for one could get it with an unread response. */
export type Reuse = Pick<AgentOptions, 'keepAlive'>;

/**
 * An agent for `http:` or `https:`, as in the URL. Connections are used again only on a Node that keeps responses apart:
 * one that does not may give a request the response to another one, which is another caller's.
 *
 * @param egressProxy opens the connections, within its timeout in milliseconds; for `https:` only
 */
export function createAgent(
  url: string,
  { ca, cert, key, proxyCa, minVersion = 'TLSv1.2', observer, pinned }: AgentTls,
  { keepAlive = false }: Reuse,
  egressProxy?: EgressProxySettings,
  tunnelTimeout = 2_500,
): HttpAgent {
  // Nothing can disable the verification.
  const tls = { ...tlsPolicy, minVersion, rejectUnauthorized: true };
  const options = { keepAlive: keepAlive && keepsResponsesApart(process.version) };
  const agent = url.startsWith('http:')
    ? new HttpAgent(options)
    : new HttpsAgent({
        ...options,
        ca,
        cert,
        key,
        ...tls,
        ...(pinned === undefined ? {} : pinnedTo(pinned)),
      });
  if (observer !== undefined) observeConnections(agent, observer);
  if (egressProxy !== undefined) {
    // The proxy could read the requests.
    if (!(agent instanceof HttpsAgent)) throw new TypeError('an egress proxy requires an https: address');
    const proxyTls = proxyCa === undefined ? tls : { ...tls, ca: proxyCa };
    tunnelThrough(egressProxy, proxyTls, tunnelTimeout, agent);
  }
  return agent;
}

/** The certificate alone is trusted, so that its name adds nothing. */
function pinnedTo(
  certificate: string,
): SecureContextOptions & Pick<ConnectionOptions, 'checkServerIdentity'> {
  return { ca: certificate, allowPartialTrustChain: true, checkServerIdentity: () => undefined };
}

function observeConnections(agent: HttpAgent, observer: TlsObserver): void {
  const create = agent.createConnection.bind(agent);
  agent.createConnection = (options, callback) => {
    const socket = create(options, callback);
    if (socket instanceof TLSSocket) observeTls(socket, observer);
    return socket;
  };
}

/** How a server of the configuration is reached. */
export interface ServerAccess extends Pick<AgentTls, 'minVersion' | 'observer'> {
  readonly caFile?: string | undefined;
  readonly egressProxy?: (EgressProxySettings & { readonly caFile?: string | undefined }) | undefined;
}

/**
 * An agent for single requests to a server. The files are read now, since certificates in them are replaced.
 *
 * @throws Error with a message for operators
 */
export async function agentFor(
  url: URL,
  { caFile, egressProxy, ...access }: ServerAccess,
): Promise<HttpAgent> {
  const ca = caFile === undefined ? {} : { ca: await readText(caFile, maxCertificateBytes) };
  const proxyCa =
    egressProxy?.caFile === undefined ? undefined : await readText(egressProxy.caFile, maxCertificateBytes);
  return createAgent(url.href, { ...access, ...ca, proxyCa }, { keepAlive: false }, egressProxy);
}

/**
 * Closes idle connections now, and the others after their current request. `destroy` would also end requests in
 * flight.
 */
export function drainAgent(agent: HttpAgent): void {
  agent.maxFreeSockets = 0;
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}
