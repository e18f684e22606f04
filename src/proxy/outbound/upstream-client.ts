import type { Agent, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { createProxyMiddleware, type Plugin } from 'http-proxy-middleware';
import type { EnvironmentConfig } from '../../config/schema.ts';
import { createAgent, drainAgent, type Reuse } from '../../net/agent.ts';
import type { TlsMaterial } from '../../net/tls-material.ts';
import type { TlsObserver } from '../../net/tls-observer.ts';
import { InflightRequests } from '../inflight-requests.ts';
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

/** @param material its CAs are trusted instead of the public ones. Verification cannot be disabled. */
export function createUpstreamClient(
  settings: EnvironmentConfig,
  material: TlsMaterial,
  inflight = new InflightRequests(),
  observer?: TlsObserver,
): UpstreamClient {
  const { origin } = new URL(settings.baseUrl);
  const tls = { ...material, minVersion: settings.minVersion, observer };
  const agentWith = (options: Reuse): Agent =>
    createAgent(origin, tls, options, settings.egressProxy, settings.timeouts.connect);
  const pool = limitConnectionAge(agentWith({ keepAlive: true }), settings.connectionMaxAge);
  // Node copies the options of an agent for each request.
  pool.maxFreeSockets = settings.maxInFlight;
  const sendPooled = createChannel(origin, pool, inflight);
  const sendDedicated = createChannel(origin, agentWith({ keepAlive: false }), inflight);
  return {
    send: (signed, options) =>
      (options.dedicatedConnection || !settings.keepAlive ? sendDedicated : sendPooled)(signed, options),
    drain: () => drainAgent(pool),
  };
}

/**
 * One middleware and its agent, without the default plugins: requests are already complete, and the default error
 * plugin would write text into a response that has begun.
 */
function createChannel(target: string, agent: Agent, inflight: InflightRequests): UpstreamClient['send'] {
  const eventBridge: Plugin = (server) => {
    server.on('proxyReq', (proxyRequest, request) => upstreamRequestOf(request)?.onSocket(proxyRequest));
    server.on('proxyRes', (response, request) => upstreamRequestOf(request)?.onResponse(response));
    server.on('error', (error, request) => upstreamRequestOf(request)?.onError(error));
    server.on('econnreset', (error, request) => upstreamRequestOf(request)?.onError(error));
  };
  const { protocol, hostname, port } = new URL(target);
  const proxy = createProxyMiddleware({
    // For every request a string would be parsed, and a URL asked for its parts, which it cuts out each time.
    target: { protocol, host: hostname.replaceAll(/[[\]]/g, ''), port },
    agent,
    selfHandleResponse: true,
    followRedirects: false,
    ejectPlugins: true,
    plugins: [eventBridge],
  });
  // One agent has one destination. Node would join all TLS options, certificates too, to find its sockets.
  agent.getName = () => target;
  return (signed, options) => {
    inflight.assertAccepting();
    const upstreamRequest = new UpstreamRequest(signed, options);
    inflight.trackUpstream(upstreamRequest);
    void proxy(upstreamRequest.detachedRequest, upstreamRequest.detachedResponse, (error) => {
      if (error instanceof Error) upstreamRequest.onError(error);
    });
    return upstreamRequest.response;
  };
}

/** The middleware's events have the request that it was given. */
function upstreamRequestOf(request: IncomingMessage | undefined): UpstreamRequest | undefined {
  return request instanceof DetachedRequest ? request.upstreamRequest : undefined;
}

/**
 * Limits the age of an agent's connections, so that changes in DNS or behind a load balancer take effect. A connection
 * that is too old is closed when it is idle, or after its current request.
 *
 * @param maxAge milliseconds since the connection was opened
 */
function limitConnectionAge<T extends Agent>(agent: T, maxAge: number): T {
  const tooOld = new WeakSet<Duplex>();
  const create = agent.createConnection.bind(agent);
  const keep = agent.keepSocketAlive.bind(agent);
  const opened = (socket: Duplex): void => {
    const timer = setTimeout(() => {
      tooOld.add(socket);
      const isIdle = Object.values(agent.freeSockets).some((idle) => idle?.some((free) => free === socket));
      if (isIdle) socket.destroy();
    }, maxAge).unref();
    socket.once('close', () => clearTimeout(timer));
  };
  agent.createConnection = (options, callback) => {
    // One through an egress proxy is passed to the callback.
    const socket = create(options, (error, connected) => {
      if (connected) opened(connected);
      callback?.(error, connected);
    });
    if (socket) opened(socket);
    return socket;
  };
  // Node closes a connection if this returns false (see `agent.keepSocketAlive` in Node's documentation).
  agent.keepSocketAlive = (socket) => !tooOld.has(socket) && keep(socket);
  return agent;
}
