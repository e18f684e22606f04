import { createServer } from 'node:http';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createRoutes } from '../../../src/gateway/router.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { InflightRequests } from '../../../src/proxy/inflight-requests.ts';
import type { UpstreamClient } from '../../../src/proxy/outbound/upstream-client.ts';
import type { RequestContext } from '../../../src/request-context.ts';
import { createApp } from '../../../src/service/app.ts';
import { createShared } from '../../../src/service/shared.ts';
import { fixedKeys } from '../../support/fixed-keys.ts';
import { post, transferForm } from '../../support/forwarding.ts';
import { until } from '../../support/until.ts';

const ok = { status: 200, headers: {}, body: Buffer.from('OK') };
const granted = { environments: ['*'], operations: ['*'], logins: ['acme'] };

const config = configSchema.parse({
  environments: { sandbox: { baseUrl: 'http://127.0.0.1:1', product: 'gw', maxInFlight: 1 } },
  keys: { source: 'directory', directory: '/nowhere' },
  callers: [{ name: 'local', credentials: [{ anonymous: true }], allow: [granted] }],
});

type Sent = Parameters<UpstreamClient['send']>;

const requestFinished = (context: RequestContext): void => void logged.push(context);

/** What the gateway does with a request. */
let forward: UpstreamClient['send'];
let logged: RequestContext[];
let stop: () => void;
let inflight: InflightRequests;
let url: string;

beforeEach(async () => {
  [forward, logged, inflight] = [async () => ok, [], new InflightRequests()];
  const log = { ...createLogger('error', { write() {} }), requestFinished };
  const shared = await createShared({ config, digest: 'digest' }, { log }, () => false);
  const ring = parseKeys({ control_key: 'secret' }, { version: 1 });
  const keys = { ...fixedKeys(() => ring, shared), signRemotely: undefined };
  const upstreams = new Map([['sandbox', { send: (...sent: Sent) => forward(...sent), drain: () => {} }]]);
  const app = createApp(createRoutes(config), { keys, verifyJwt: undefined, upstreams, inflight }, shared);
  const server = createServer(app);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  stop = () => void server.close();
});
afterEach(() => stop());

it('a response that is complete when an abort would end the request stays, and is what is logged', async () => {
  const going = Promise.withResolvers<typeof ok>();
  const begun = Promise.withResolvers<void>();
  forward = () => {
    begun.resolve();
    return going.promise;
  };
  const path = '/sandbox/gw/api/v2/pan-eligibility/send/1234';
  const sending = post(`${url}${path}`, transferForm, { 'Countersign-Login': 'acme' });
  await begun.promise;
  await inflight.abortAll();
  going.resolve(ok);
  expect((await sending).status).toBe(200);
  await until(() => logged.length === 1);
  expect(logged).toMatchObject([{ status: 200, outcome: 'answered' }]);
});
