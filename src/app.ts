import express, { type Express } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { createAuthenticator } from './callers/authenticate.ts';
import type { Config } from './config/shape.ts';
import { createResolver } from './gateway/resolve.ts';
import type { Log } from './ops/log.ts';
import type { Meter } from './ops/meter.ts';
import type { Admission } from './proxy/admission.ts';
import { createFormReader } from './proxy/body.ts';
import { Canaries } from './proxy/canary.ts';
import type { Forwarder } from './proxy/forward.ts';
import { createHandler } from './proxy/handle.ts';
import type { InFlight } from './proxy/in-flight.ts';
import type { MemoryBudget } from './proxy/memory-budget.ts';
import type { Rotation } from './proxy/rotation.ts';
import { Sender } from './proxy/send.ts';
import { Signer } from './proxy/signer.ts';

/** Everything that reaches outside of the process, or is not the same in two runs. */
export interface AppPorts {
  /** Gives the keys, and remembers which the gateway took. */
  readonly rotation: Rotation;
  /** One per environment. */
  readonly forwarders: ReadonlyMap<string, Forwarder>;
  readonly admission: Admission;
  readonly memory: MemoryBudget;
  readonly inFlight: InFlight;
  readonly meter: Meter;
  readonly log: Log;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** 128 random bits as text. */
  readonly nonce: () => string;
  /** 0 to 1. */
  readonly random: () => number;
  readonly newRequestId: () => string;
  /** Takes out of a text the logins that may not be written. */
  readonly redact: (text: string) => string;
  readonly userAgent: string;
}

/** An answer that a browser opens all the same may run nothing; what only concerns pages is left out. */
const forPrograms: HelmetOptions = {
  contentSecurityPolicy: {
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    useDefaults: false,
  },
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
};

/** Puts the proxy together. Opens nothing: no port, no file, no connection. */
export function createApp(config: Config, ports: AppPorts): Express {
  const signer = new Signer(config.signing, ports.meter, ports.monotonic);
  const { maxBodyBytes, maxParameters, deadlines } = config.proxy;
  const handle = createHandler({
    ...ports,
    authenticate: createAuthenticator(config.callers),
    resolve: createResolver(config),
    readForm: createFormReader({ maxBodyBytes, maxParameters, deadline: deadlines.body }),
    takingDeadline: deadlines.body,
    sender: new Sender({
      ...ports,
      signer,
      ...(config.keys.rotation.canary ? { canaries: new Canaries(config, ports) } : {}),
    }),
  });
  return express().disable('x-powered-by').disable('etag').use(helmet(forPrograms)).use(handle);
}
