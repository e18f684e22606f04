import { Agent as HttpAgent, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { createProxyMiddleware, type Plugin } from 'http-proxy-middleware';
import type { EnvironmentConfig } from '../../config/schema.ts';
import { KeepAliveAgent, KeepAliveTlsAgent } from '../../util/keep-alive-agent.ts';
import { InflightRequests } from '../inflight-requests.ts';
import { limitConnectionAge } from './connection-age.ts';
import {
  DetachedRequest,
  type GatewayResponse,
  type SignedHttpRequest,
  UpstreamRequest,
  type UpstreamRequestOptions,
} from './upstream-request.ts';

/** How one request is to travel. */
export interface SendOptions extends UpstreamRequestOptions {
  /** A connection of its own, so that a stale pooled one can never make the outcome uncertain. */
  readonly dedicatedConnection: boolean;
}

/** Carries complete requests to the gateway of one environment. */
export interface UpstreamClient {
  /** @throws CrossingFailure, and Refusal `shutting-down` */
  send(post: SignedHttpRequest, passage: SendOptions): Promise<GatewayResponse>;
  /** Closes idle connections, and each one under way when its exchange is over. */
  drain(): void;
}

/**
 * @param ca PEM of a CA to trust instead of the public ones. Verification itself cannot be switched off.
 */
export function createUpstreamClient(
  settings: EnvironmentConfig,
  ca: string | undefined,
  inflight = new InflightRequests(),
): UpstreamClient {
  const { origin } = new URL(settings.baseUrl);
  const pool = limitConnectionAge(pooledAgent(origin, ca, settings.maxInFlight), settings.connectionMaxAge);
  const pooled = createChannel(origin, pool, inflight);
  const own = createChannel(origin, dedicatedAgent(origin, ca), inflight);
  return {
    send: (post, passage) =>
      (passage.dedicatedConnection || !settings.keepAlive ? own : pooled).send(post, passage),
    drain: () => drainAgent(pooled.agent),
  };
}

interface ProxyChannel {
  readonly agent: HttpAgent;
  send(post: SignedHttpRequest, passage: SendOptions): Promise<GatewayResponse>;
}

/**
 * One middleware and its agent. All default plugins are left out: the request is complete before it gets
 * here, and the default error plugin would write text into replies that have begun.
 */
function createChannel(target: string, agent: HttpAgent, inflight: InflightRequests): ProxyChannel {
  const report: Plugin = (server) => {
    server.on('proxyReq', (proxyRequest, request) => upstreamRequestOf(request)?.onSocket(proxyRequest));
    server.on('proxyRes', (reply, request) => upstreamRequestOf(request)?.onResponse(reply));
    server.on('error', (error, request) => upstreamRequestOf(request)?.onError(error));
    server.on('econnreset', (error, request) => upstreamRequestOf(request)?.onError(error));
  };
  const carry = createProxyMiddleware({
    // As text it would be parsed for every request.
    target: new URL(target),
    agent,
    selfHandleResponse: true,
    followRedirects: false,
    ejectPlugins: true,
    plugins: [report],
  });
  return {
    agent,
    async send(post, passage) {
      inflight.assertAccepting();
      const crossing = new UpstreamRequest(post, passage);
      inflight.trackUpstream(crossing);
      void carry(crossing.detachedRequest, crossing.detachedResponse, (error) => {
        if (error instanceof Error) crossing.onError(error);
      });
      return crossing.response;
    },
  };
}

/** The middleware hands back the request that it was given. */
function upstreamRequestOf(request: IncomingMessage | undefined): UpstreamRequest | undefined {
  return request instanceof DetachedRequest ? request.upstreamRequest : undefined;
}

/** `agent.destroy()` would end exchanges that are under way. */
function drainAgent(agent: HttpAgent): void {
  agent.maxFreeSockets = 0;
  for (const sockets of Object.values(agent.freeSockets)) {
    for (const socket of sockets ?? []) socket.destroy();
  }
}

/** Keeps connections alive and uses them again. */
function pooledAgent(origin: string, ca: string | undefined, maxFreeSockets: number): HttpAgent {
  if (origin.startsWith('http:')) return new KeepAliveAgent({ maxFreeSockets });
  return new KeepAliveTlsAgent({ ...tlsOptions(ca), maxFreeSockets });
}

/** Opens a connection for each request. */
function dedicatedAgent(origin: string, ca: string | undefined): HttpAgent {
  if (origin.startsWith('http:')) return new HttpAgent({ keepAlive: false });
  return new HttpsAgent({ ...tlsOptions(ca), keepAlive: false });
}

function tlsOptions(ca: string | undefined) {
  return {
    minVersion: 'TLSv1.2',
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  } as const;
}
