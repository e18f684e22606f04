import { mergeOperations, type Operation } from '../gateway/operations.ts';
import { addedResponse } from './added-operation.ts';
import { balanceResponse } from './balance.ts';
import type { SimulatorContext } from './context.ts';
import { eligibilityResponse } from './eligibility.ts';
import type { SimulatorResponse } from './response.ts';
import type { Scenario } from './scenario-schema.ts';
import { statusResponse } from './status.ts';
import { transferResponse } from './transfer.ts';
import type { VerifiedRequest } from './verified-request.ts';
import type { Expectation } from './verify.ts';

/** An operation of the proxy, as the simulator serves it. */
export interface Route extends Expectation {
  readonly operation: string;
  /** In express syntax: `/gw/api/v4/status/:endpoint`. */
  readonly path: string;
  respond(request: VerifiedRequest, context: SimulatorContext): SimulatorResponse;
}

const responders: ReadonlyMap<string, Route['respond']> = new Map([
  ['manager-balance', balanceResponse],
  ['order-status', (request, context) => statusResponse(request, [request.path['endpoint'] ?? ''], context)],
  ['order-status-group', (request, context) => statusResponse(request, membersOf(request, context), context)],
  ['pan-eligibility-send', eligibilityResponse],
  ['transfer', transferResponse],
] satisfies [string, Route['respond']][]);

/** The built-in operations and those of the scenario. The first that matches a path is the one that the proxy finds. */
export function routesOf({ product, signatures, operations }: Scenario): Route[] {
  const methods = Object.entries(signatures).map(([name, signature]) => [name, { signature }] as const);
  return mergeOperations([operations, Object.fromEntries(methods)])
    .toSorted(literalsFirst)
    .map(({ name, path, signature, loginFrom }) => ({
      operation: name,
      path: `/${product}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
      signature,
      loginFrom,
      respond: responders.get(name) ?? ((request, context) => addedResponse(name, request, context)),
    }));
}

/** Express takes the first path that matches; for the proxy a literal segment precedes a placeholder. */
function literalsFirst(a: Operation, b: Operation): number {
  const [keyA, keyB] = [a, b].map(({ path }) => path.replaceAll(/\{\w+\}/g, '\uffff'));
  return (keyA ?? '') < (keyB ?? '') ? -1 : 1;
}

/** How a group query differs from a single one is not shown: here it covers all endpoints of the group. */
function membersOf(request: VerifiedRequest, { scenario: { groups } }: SimulatorContext): readonly string[] {
  const group = request.path['endpointGroup'] ?? '';
  return (Object.hasOwn(groups, group) ? groups[group] : undefined) ?? [];
}
