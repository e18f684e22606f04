import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent, type AgentOptions as HttpsAgentOptions } from 'node:https';
import { guardReuse } from './keep-alive-agent.ts';

/** For every TLS connection to a server. Nothing can disable the verification. */
export const verifiedTls = { minVersion: 'TLSv1.2', rejectUnauthorized: true } as const;

/**
 * An agent for `http:` or `https:`, as in the URL. With `keepAlive`, it never uses a connection again that received
 * bytes while no request was pending.
 *
 * @param tls PEM texts; the public CAs where `ca` is absent
 */
export function createAgent(
  url: string,
  tls: Pick<HttpsAgentOptions, 'ca' | 'cert' | 'key'>,
  options: AgentOptions,
): HttpAgent {
  const agent = url.startsWith('http:')
    ? new HttpAgent(options)
    : new HttpsAgent({ ...options, ...tls, ...verifiedTls });
  return options.keepAlive ? guardReuse(agent) : agent;
}

/**
 * Closes idle connections now, and the others after their current request. `destroy` would also end requests in
 * flight.
 */
export function drainAgent(agent: HttpAgent): void {
  agent.maxFreeSockets = 0;
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
}
