import type { SimulatorContext } from './context.ts';
import { jsonResponse, type SimulatorResponse } from './response.ts';
import type { Balance } from './scenario-schema.ts';
import { VerificationError } from './verification-error.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * The balance that `balance-name` names, or all (docs/gateway-interface.md section 4.1). The response for an unknown name
 * is undocumented; here it is an empty array.
 *
 * @throws VerificationError `balance-not-enabled` for a login without balances in the scenario
 */
export function balanceResponse(
  request: VerifiedRequest,
  { scenario: { logins } }: SimulatorContext,
): SimulatorResponse {
  const balances = Object.hasOwn(logins, request.login) ? logins[request.login]?.balances : undefined;
  if (balances === undefined) throw new VerificationError('balance-not-enabled');
  const name = parameter(request, 'balance-name');
  const shown = balances.filter((balance) => name === undefined || balance.name === name);
  const records = shown.map((balance) => record(balance, request.login));
  return jsonResponse(`[${records.join(',')}]`, shown.length === 0 && name !== undefined);
}

/** docs/gateway-interface.md section 2.1. Not `JSON.stringify`, which cannot print three decimals. */
function record(balance: Balance, login: string): string {
  const onHold = balance['total-short-term-hold-amount'] + balance['total-rolling-reserve-amount'];
  const fields = {
    name: JSON.stringify(balance.name),
    amount: decimals(balance.amount),
    'online-balance-live-amount': decimals(balance.amount - onHold),
    'total-short-term-hold-amount': decimals(balance['total-short-term-hold-amount']),
    'total-rolling-reserve-amount': decimals(balance['total-rolling-reserve-amount']),
    currency: JSON.stringify(balance.currency),
    merchantLogin: JSON.stringify(login),
    'amount-buffer-hold': decimals(balance['amount-buffer-hold']),
    externalMerchantIdentifier: JSON.stringify(balance.externalMerchantIdentifier),
  };
  const members = Object.entries(fields).map(([name, json]) => `${JSON.stringify(name)}:${json}`);
  return `{${members.join(',')}}`;
}

function decimals(amount: number): string {
  return amount.toFixed(3);
}
