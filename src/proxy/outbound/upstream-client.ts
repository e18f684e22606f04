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

export interface SendOptions extends UpstreamRequestOptions {
  /** Use a connection for this request only: a stale pooled one would make the outcome uncertain. */
  readonly dedicatedConnection: boolean;
}

/** Sends signed requests to the gateway of one environment. */
export interface UpstreamClient {
  /** @throws UpstreamError, and ProxyError `shutting-down` */
  send(signed: SignedHttpRequest, options: SendOptions): Promise<GatewayResponse>;
  /** Closes idle connections now, and the others after their current request. */
  drain(): void;
}

/** @param ca PEM of a CA to trust instead of the public ones. Verification cannot be disabled. */
export function createUpstreamClient(
  settings: EnvironmentConfig,
  ca: string | undefined,
  inflight = new InflightRequests(),
): UpstreamClient {
  const { origin } = new URL(settings.baseUrl);
  const pool = limitConnectionAge(pooledAgent(origin, ca, settings.maxInFlight), settings.connectionMaxAge);
  const pooled = createChannel(origin, pool, inflight);
  const dedicated = createChannel(origin, dedicatedAgent(origin, ca), inflight);
  return {
    send: (signed, options) =>
      (options.dedicatedConnection || !settings.keepAlive ? dedicated : pooled).send(signed, options),
    drain: () => drainAgent(pooled.agent),
  };
}

interface ProxyChannel {
  readonly agent: HttpAgent;
  send(signed: SignedHttpRequest, options: SendOptions): Promise<GatewayResponse>;
}

/**
 * One middleware and its agent, without the default plugins: requests are already complete, and the default error
 * plugin would write text into a response that has begun.
 */
function createChannel(target: string, agent: HttpAgent, inflight: InflightRequests): ProxyChannel {
  const eventBridge: Plugin = (server) => {
    server.on('proxyReq', (proxyRequest, request) => upstreamRequestOf(request)?.onSocket(proxyRequest));
    server.on('proxyRes', (response, request) => upstreamRequestOf(request)?.onResponse(response));
    server.on('error', (error, request) => upstreamRequestOf(request)?.onError(error));
    server.on('econnreset', (error, request) => upstreamRequestOf(request)?.onError(error));
  };
  const proxy = createProxyMiddleware({
    // A string would be parsed for every request.
    target: new URL(target),
    agent,
    selfHandleResponse: true,
    followRedirects: false,
    ejectPlugins: true,
    plugins: [eventBridge],
  });
  return {
    agent,
    async send(signed, options) {
      inflight.assertAccepting();
      const upstreamRequest = new UpstreamRequest(signed, options);
      inflight.trackUpstream(upstreamRequest);
      void proxy(upstreamRequest.detachedRequest, upstreamRequest.detachedResponse, (error) => {
        if (error instanceof Error) upstreamRequest.onError(error);
      });
      return upstreamRequest.response;
    },
  };
}

/** The middleware's events have the request that it was given. */
function upstreamRequestOf(request: IncomingMessage | undefined): UpstreamRequest | undefined {
  return request instanceof DetachedRequest ? request.upstreamRequest : undefined;
}

/** Not `agent.destroy()`, which would also end requests in flight. */
function drainAgent(agent: HttpAgent): void {
  agent.maxFreeSockets = 0;
  for (const sockets of Object.values(agent.freeSockets)) {
    for (const socket of sockets ?? []) socket.destroy();
  }
}

function pooledAgent(origin: string, ca: string | undefined, maxFreeSockets: number): HttpAgent {
  if (origin.startsWith('http:')) return new KeepAliveAgent({ maxFreeSockets });
  return new KeepAliveTlsAgent({ ...tlsOptions(ca), maxFreeSockets });
}

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
