import { createServer } from 'node:http';
import { listen } from '../support/listening.ts';
import type { ReceivedRequest } from '../support/verify.ts';

const balance =
  '[{"name":"Main USD","amount":12500.500,"online-balance-live-amount":10950.450,"currency":"USD"}]';
const status = 'type=status-response\n&status=approved\n&amount=10.42\n&currency=USD\n&gw-order-id=6570344\n';

/** A gateway that keeps the last request and verifies nothing, to leave the machine to what is measured. */
export async function startUpstream() {
  let last: ReceivedRequest | undefined;
  // Never ends an idle connection: proxies fail a request on one that ends at that moment.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url: path = '', headers } = request;
      const url = `http://${headers.host}${path}`;
      last = { method, url, authorization: headers.authorization, body: Buffer.concat(chunks) };
      response.end(path.includes('/status/') ? status : balance);
    });
  });
  const { port, close } = await listen(server);
  return { url: `http://127.0.0.1:${port}`, last: () => last, stop: close };
}

export type Upstream = Awaited<ReturnType<typeof startUpstream>>;
