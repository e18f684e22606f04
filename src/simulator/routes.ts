import { builtInOperations } from '../gateway/operations.ts';
import { answerBalance } from './balance.ts';
import type { SimulatorContext } from './context.ts';
import { answerEligibility, answerTransfer } from './invented.ts';
import type { SimulatorResponse } from './response.ts';
import type { Scenario } from './scenario-shape.ts';
import { answerStatus } from './status.ts';
import type { VerifiedRequest } from './verified-request.ts';
import type { Expected } from './verify.ts';

/** One operation of the proxy's table, as the simulator serves it. */
export interface Route extends Expected {
  readonly operation: string;
  /** As express writes it: `/gw/api/v4/status/:endpoint`. */
  readonly path: string;
  answer(call: VerifiedRequest, world: SimulatorContext): SimulatorResponse;
}

const answers: ReadonlyMap<string, Route['answer']> = new Map([
  ['manager-balance', answerBalance],
  ['order-status', (call, world) => answerStatus(call, [call.path['endpoint'] ?? ''], world)],
  ['order-status-group', (call, world) => answerStatus(call, membersOf(call, world), world)],
  ['pan-eligibility-send', answerEligibility],
  ['transfer', answerTransfer],
] satisfies [string, Route['answer']][]);

/** The built-in operations, with the scenario's signature methods where it names others. */
export function routesOf({ product, signatures }: Scenario): Route[] {
  return Object.entries(builtInOperations).flatMap(([operation, { path, signature, loginFrom: login }]) => {
    const answer = answers.get(operation);
    return answer === undefined
      ? []
      : {
          operation,
          path: `/${product}${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
          signature: signatures[operation] ?? signature,
          login,
          answer,
        };
  });
}

/** How the group path differs from the single one is not shown: here it looks at all endpoints of the group. */
function membersOf(call: VerifiedRequest, { scenario: { groups } }: SimulatorContext): readonly string[] {
  const group = call.path['endpointGroup'] ?? '';
  return (Object.hasOwn(groups, group) ? groups[group] : undefined) ?? [];
}
