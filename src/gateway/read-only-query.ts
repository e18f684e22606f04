import type { Config } from '../config/schema.ts';
import type { Operation } from './operations.ts';
import type { Destination, Routes } from './router.ts';

export interface QueryAbout {
  readonly environment: string;
  readonly login: string;
  /** Required for an order status query. */
  readonly endpoint: string | undefined;
  readonly clientOrderId: string;
}

/** A request that changes nothing, ready to be signed. */
export interface ReadOnlyQuery {
  readonly destination: Destination;
  readonly form: readonly Pair[];
}

type Pair = readonly [name: string, value: string];

/** The two read-only operations with their forms (docs/gateway-interface.md sections 4.2 and 4.1). */
const forms = new Map<string, (subject: QueryAbout) => Pair[]>([
  ['order-status', (about) => Object.entries({ login: about.login, client_orderid: about.clientOrderId })],
  ['manager-balance', () => []],
]);

/**
 * Builds a read-only query whose response shows whether the gateway accepts a key.
 *
 * @param signature the signature method that uses the key
 * @returns the query, or why there is none
 */
export function readOnlyQuery(
  { config, operations, resolve }: Routes,
  subject: QueryAbout,
  signature: Operation['signature'],
): ReadOnlyQuery | 'no-operation' | 'no-endpoint' {
  const { environment, login, endpoint } = subject;
  const operation = operations
    .get(environment)
    ?.find(
      (candidate) => forms.has(candidate.name) && candidate.readOnly && candidate.signature === signature,
    );
  const product = config.environments[environment]?.product;
  if (operation === undefined || product === undefined) return 'no-operation';
  if (operation.path.includes('{endpoint}') && endpoint === undefined) return 'no-endpoint';
  const path = operation.path.replace('{endpoint}', endpoint ?? '').replace('{login}', login);
  const destination = resolve(`/${environment}/${product}${path}`);
  return { destination, form: forms.get(operation.name)?.(subject) ?? [] };
}

/** The first endpoint that the configuration maps to the login. */
export function endpointOf(
  config: Config,
  { environment, login }: Omit<QueryAbout, 'endpoint' | 'clientOrderId'>,
): string | undefined {
  const endpoints = Object.entries(config.environments[environment]?.endpoints ?? {});
  return endpoints.find(([, owner]) => owner === login)?.[0];
}
