/** What a service posts. */
export interface Call {
  readonly path: string;
  readonly body: string;
}

/** Throw-away secrets of the benchmark. */
export const controlKey = '5F2C9E4A-7B1D-4E8F-9A3C-6D0B8E2F4A17';
export const token = 'bench-3f0c6a7d9e2b4815';

const balancePath = '/gw/api/v2/get-balance/manager/acme';
const statusPath = '/gw/api/v4/status/1234';
const statusBody = (login: string): string =>
  `login=${login}&client_orderid=902B4FF5-1A77-4C0B-9D7E-55A0F1&orderid=6570344`;

export const balanceCall: Call = { path: balancePath, body: 'balance-name=Main+USD' };
export const statusCall = (login: string): Call => ({ path: statusPath, body: statusBody(login) });

/** As long as the one of a status query. */
export const baseString = [
  'POST',
  encodeURIComponent(`https://sandbox.gateway.example${statusPath}`),
  encodeURIComponent(
    `${statusBody('acme')}&oauth_consumer_key=acme&oauth_nonce=8b7d2c1e9f0a4b6d8c3e5f7a9b1d2c4e` +
      '&oauth_signature_method=RSA-SHA256&oauth_timestamp=1789000000&oauth_version=1.0',
  ),
].join('&');

/** Replies in the forms of interface sections 2.1 and 2.2. */
export const replies = {
  balance: {
    type: 'application/json;charset=utf-8',
    body: JSON.stringify([
      {
        name: 'Main USD',
        amount: 12500.5,
        'online-balance-live-amount': 10950.45,
        'total-short-term-hold-amount': 300,
        'total-rolling-reserve-amount': 1250.05,
        currency: 'USD',
        merchantLogin: 'acme',
        'amount-buffer-hold': 75.25,
        externalMerchantIdentifier: null,
      },
    ]),
  },
  status: {
    type: 'text/html;charset=utf-8',
    body: Object.entries({
      type: 'status-response',
      'serial-number': '00000000-0000-0000-0000-0000029b8b5a',
      status: 'approved',
      'order-stage': 'transfer_approved',
      amount: '10.42',
      'initial-amount': '10.42',
      currency: 'USD',
      'gw-order-id': '6570344',
      'merchant-order-id': '902B4FF5-1A77-4C0B-9D7E-55A0F1',
      'transaction-type': 'transfer',
      'transaction-date': '2026-01-15+09%3A30%3A00+UTC',
      'processor-tx-id': 'PT-6570344',
      'approval-code': '123456',
      name: 'Ada+Example',
      email: 'ada%40shop.example',
      'last-four-digits': '1111',
      bin: '411111',
      'card-type': 'VISA',
      'bank-name': 'EXAMPLE+BANK',
    })
      .map(([name, value]) => `${name}=${value}\n`)
      .join('&'),
  },
} as const;
