import { expect, it } from '@jest/globals';
import { everything } from '../support/config.ts';
import { paths, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { jwtCaller } from '../support/jwt.ts';
import { peakMemory } from '../support/memory-limit.ts';
import { issuerKey, startOidcServer } from '../support/oidc-server.ts';
import { formRequest } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const starts = harness();

/** Without its last chunk. As objects of Node, these chunks would use 25 MB. */
const form =
  Array.from('client_orderid=1', (byte) => `1\r\n${byte}\r\n`).join('') + '1\r\na\r\n'.repeat(64_000);
const clients = 30;

it.each([
  ['are read', false],
  ['wait for an issuer', true],
])(
  'forms in chunks of single bytes, which %s, use no more memory than others',
  async (_, unknown) => {
    const gateway = await starts.recordingGateway();
    const issuer = starts.closing(await startOidcServer({ keys: [issuerKey('first')] }));
    const process = await starts.process({
      gateway: gateway.url,
      config: {
        proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown: '1s' } },
        jwtIssuers: { idp: { issuer: issuer.url, audience: 'countersign' } },
        callers: [
          jwtCaller('billing', { subject: 'billing' }),
          { name: 'local', credentials: [{ anonymous: true }], allow: [everything] },
        ],
      },
    });
    await until(() => issuer.fetches() === 1);
    issuer.rotate(issuerKey('unknown'));
    issuer.respond = () => {};
    const token = await issuer.sign({ sub: 'billing' });
    const authorization = unknown ? [`Authorization: Bearer ${token}`] : [];
    const head = formRequest(paths.transfer, '', ['Transfer-Encoding: chunked', ...authorization]);
    const pid = process.child.pid ?? 0;
    expect((await process.transfer()).status).toBe(200);
    const before = peakMemory(pid) ?? 0;
    for (let count = 0; count < clients; count += 1) (await process.connect()).send(head + form);
    // Requests take turns with the forms, so that much of them is read when these are processed.
    for (let count = 0; count < 200; count += 1) {
      expect((await process.post(paths.transfer, transferForm)).status).toBe(200);
    }
    expect(((peakMemory(pid) ?? 0) - before) / 1_048_576).toBeLessThan(150);
  },
  120_000,
);
