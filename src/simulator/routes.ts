import { builtInOperations } from '../gateway/operations.ts';
import { balanceResponse } from './balance.ts';
import type { SimulatorContext } from './context.ts';
import { eligibilityResponse } from './eligibility.ts';
import type { SimulatorResponse } from './response.ts';
import type { Scenario } from './scenario-schema.ts';
import { statusResponse } from './status.ts';
import { transferResponse } from './transfer.ts';
import type { VerifiedRequest } from './verified-request.ts';
import type { Expectation } from './verify.ts';

/** A built-in operation of the proxy, as the simulator serves it. */
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

/** The built-in operations, with the signature methods of the scenario if it overrides them. */
export function routesOf({ product, signatures }: Scenario): Route[] {
  return Object.entries(builtInOperations).flatMap(([operation, { path, signature, loginFrom }]) => {
    const respond = responders.get(operation);
    return respond === undefined
      ? []
      : {
          operation,
          path: `/${product}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
          signature: signatures[operation] ?? signature,
          loginFrom,
          respond,
        };
  });
}

/** How a group query differs from a single one is not shown: here it covers all endpoints of the group. */
function membersOf(request: VerifiedRequest, { scenario: { groups } }: SimulatorContext): readonly string[] {
  const group = request.path['endpointGroup'] ?? '';
  return (Object.hasOwn(groups, group) ? groups[group] : undefined) ?? [];
}
