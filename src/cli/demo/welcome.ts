import { percentEncode } from '../../oauth1/encode.ts';
import type { Scenario } from '../../simulator/scenario-schema.ts';
import { demoEnvironment } from './config.ts';
import { hasStatusPage, type RunningDemo } from './running.ts';

/** What the demo prints after its start: the URLs, and commands to paste. */
export function welcome(
  { proxyUrl, adminUrl, gatewayUrl, gatewayAdminUrl }: Omit<RunningDemo, 'keyDirectory' | 'pid'>,
  scenario: Scenario,
): string {
  const lines = [
    '',
    `Proxy:              ${proxyUrl}`,
    ...(hasStatusPage({ adminUrl }) ? [`Status page:        ${adminUrl}/`] : []),
    `Metrics and health: ${adminUrl}/metrics`,
    `Gateway simulator:  ${gatewayUrl} (verifies every signature)`,
    `Its admin API:      ${gatewayAdminUrl} (journal of requests, faults, keys)`,
    '',
    'Try one of these (no secrets needed):',
    '',
    ...examples(`${proxyUrl}/${demoEnvironment}/${scenario.product}/api`, scenario).map(
      (line) => `  ${line}`,
    ),
    '',
    "Add -H 'Accept: application/json' for JSON responses.",
    ...(hasStatusPage({ adminUrl }) ? rotationHint : []),
    '',
    'Press Ctrl-C to stop.',
    '',
    '',
  ];
  return lines.join('\n');
}

const rotationHint = [
  '',
  'Rotate a key, and watch it on the status page: countersign demo rotate',
  '(in a checkout: npm run -s countersign -- demo rotate)',
];

/** Commands that work with this scenario. */
function examples(api: string, { logins, orders, endpoints, caller: { tokens } }: Scenario): string[] {
  const curl = tokens === undefined ? 'curl' : `curl -H 'Authorization: Bearer ${tokens[0]}'`;
  const [login] = Object.entries(logins).flatMap(([name, { balances }]) => (balances ? [name] : []));
  const [order] = orders;
  const [endpoint] = endpoints;
  return [
    ...(login === undefined ? [] : [`${curl} -X POST ${api}/v2/get-balance/manager/${login}`]),
    ...(order === undefined
      ? []
      : [
          `${curl} -d login=${order.login} -d client_orderid=${percentEncode(order.client_orderid)} ${api}/v4/status/${order.endpoint}`,
        ]),
    ...(endpoint === undefined
      ? []
      : [
          `${curl} -d client_orderid=invoice-7 -d amount=12.50 -d currency=EUR ${api}/v4/transfer/${endpoint}`,
        ]),
  ];
}
