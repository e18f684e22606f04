// Prints what a client of @hey-api/openapi-ts reads. Arguments: the API, then API#ORDER_ID for each transfer.
import { createClient } from './countersign/client/index.js';
import { managerBalance, orderStatus } from './countersign/sdk.gen.js';
import { pay } from './pay.js';

const [api = '', ...transfers] = process.argv.slice(2);
const client = createClient({ baseUrl: api, headers: { Accept: 'application/json' } });
const balances = await managerBalance({ client, path: { login: 'acme' } });
const amount: number | undefined = balances.data?.[0]?.amount;
console.log('balance', amount);
const body = { login: 'acme', client_orderid: 'invoice-1' };
const found = await orderStatus({ client, path: { endpoint: '1234' }, body });
const status: string | undefined = found.data?.status;
console.log('status', status);
for (const accept of ['*/*', 'application/json']) {
  for (const transfer of transfers) {
    const [baseUrl = '', orderId = ''] = transfer.split('#');
    const result = await pay(createClient({ baseUrl, headers: { Accept: accept } }), orderId);
    console.log(orderId, result.outcome, result.status ?? '-', result.reason ?? '-');
  }
}
