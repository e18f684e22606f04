import { Agent as HttpAgent, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { createProxyMiddleware, type Plugin } from 'http-proxy-middleware';
import type { EnvironmentConfig } from '../config/shape.ts';
import { KeepAliveAgent, KeepAliveTlsAgent } from '../util/keep-alive-agent.ts';
import { limitConnectionAge } from './connection-age.ts';
import { type Course, Crossing, CrossingRequest, type GatewayReply, type Post } from './crossing.ts';
import { UnderWay } from './under-way.ts';

/** How one request is to travel. */
export interface Passage extends Course {
  /** A connection of its own, so that a stale pooled one can never make the outcome uncertain. */
  readonly ownConnection: boolean;
}

/** Carries complete requests to the gateway of one environment. */
export interface Forwarder {
  /** @throws CrossingFailure, and Refusal `shutting-down` */
  send(post: Post, passage: Passage): Promise<GatewayReply>;
  /** Closes idle connections, and each one under way when its exchange is over. */
  retire(): void;
}

/**
 * @param ca PEM of a CA to trust instead of the public ones. Verification itself cannot be switched off.
 */
export function createForwarder(
  settings: EnvironmentConfig,
  ca: string | undefined,
  underWay = new UnderWay(),
): Forwarder {
  const { origin } = new URL(settings.baseUrl);
  const pool = limitConnectionAge(pooledAgent(origin, ca, settings.maxInFlight), settings.connectionMaxAge);
  const pooled = createLane(origin, pool, underWay);
  const own = createLane(origin, dedicatedAgent(origin, ca), underWay);
  return {
    send: (post, passage) =>
      (passage.ownConnection || !settings.keepAlive ? own : pooled).send(post, passage),
    retire: () => retire(pooled.agent),
  };
}

interface Lane {
  readonly agent: HttpAgent;
  send(post: Post, passage: Passage): Promise<GatewayReply>;
}

/**
 * One middleware and its agent. All default plugins are left out: the request is complete before it gets
 * here, and the default error plugin would write text into replies that have begun.
 */
function createLane(target: string, agent: HttpAgent, underWay: UnderWay): Lane {
  const report: Plugin = (server) => {
    server.on('proxyReq', (proxyRequest, request) => crossingOf(request)?.began(proxyRequest));
    server.on('proxyRes', (reply, request) => crossingOf(request)?.answered(reply));
    server.on('error', (error, request) => crossingOf(request)?.failed(error));
    server.on('econnreset', (error, request) => crossingOf(request)?.failed(error));
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
      underWay.checkOpen();
      const crossing = new Crossing(post, passage);
      underWay.add(crossing);
      void carry(crossing.request, crossing.response, (error) => {
        if (error instanceof Error) crossing.failed(error);
      });
      return crossing.reply;
    },
  };
}

/** The middleware hands back the request that it was given. */
function crossingOf(request: IncomingMessage | undefined): Crossing | undefined {
  return request instanceof CrossingRequest ? request.crossing : undefined;
}

/** `agent.destroy()` would end exchanges that are under way. */
function retire(agent: HttpAgent): void {
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
