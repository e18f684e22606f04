import { configSchema } from '../../src/config/schema.ts';
import { createRoutes, type Routes } from '../../src/gateway/router.ts';
import type { Readings } from '../../src/observability/prometheus.ts';
import { type ConfigInput, configFor, environmentFor } from './config.ts';

/** A configuration with these environments, the built-in operations and the caller `billing`. @param limits `maxInFlight` */
export function routesOf(limits: Readonly<Record<string, number>> = { sandbox: 50 }): Routes {
  const environments = Object.entries(limits).map(([name, maxInFlight]) => [
    name,
    { ...environmentFor('https://gateway.test'), maxInFlight },
  ]);
  const callers: ConfigInput['callers'] = [
    { name: 'billing', credentials: [{ anonymous: true }], allow: [] },
  ];
  const config = { environments: Object.fromEntries(environments), callers };
  return createRoutes(configSchema.parse(configFor('https://gateway.test', config)));
}

/** Of a process that has just started. */
export const noReadings: Readings = {
  inFlight: () => 0,
  certificates: [],
  jwtKeysFetchedAt: new Map(),
  logLinesDropped: 0,
};
