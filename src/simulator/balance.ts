import type { SimulatorContext } from './context.ts';
import { jsonReply, type SimulatorResponse } from './response.ts';
import type { Balance } from './scenario-shape.ts';
import { VerificationError } from './verification-error.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

/**
 * Interface section 4.1: the balance that `balance-name` names, or all. What a name without a balance gives is
 * not shown: an empty array is invented.
 *
 * @throws Rejected `balance-not-enabled` for a login whose scenario has no balances.
 */
export function answerBalance(
  call: VerifiedRequest,
  { scenario: { logins } }: SimulatorContext,
): SimulatorResponse {
  const balances = Object.hasOwn(logins, call.login) ? logins[call.login]?.balances : undefined;
  if (balances === undefined) throw new VerificationError('balance-not-enabled');
  const name = parameter(call, 'balance-name');
  const shown = balances.filter((balance) => name === undefined || balance.name === name);
  const records = shown.map((balance) => record(balance, call.login));
  return jsonReply(`[${records.join(',')}]`, shown.length === 0 && name !== undefined);
}

/** Interface section 2.1. Written by hand because `JSON.stringify` has no three decimals. */
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
