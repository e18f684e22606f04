import { createServer, type ServerResponse } from 'node:http';
import { startEgressProxy } from '../support/egress-proxy.ts';
import { Folder } from '../support/folder.ts';
import { listen } from '../support/listening.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { startDevServer } from '../support/stub-vault/real-vault.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { vectorText } from '../support/vectors.ts';
import { token } from './measure.ts';
import { startUpstream } from './upstream.ts';
import { callerOf, controlKey, startCountersign, type Way } from './ways.ts';

/** Called when a variant is over, the last one first. */
type Ends = (() => unknown)[];
/** Gives the ways that are compared, one group after the other. */
type Variant = (upstream: string, ends: Ends) => AsyncGenerator<readonly Way[]>;

const many = <Item>(count: number, item: (at: number) => Item): Item[] =>
  Array.from({ length: count }, (_, at) => item(at));

/** What may grow, to which sizes, and how. */
const growing: Readonly<
  Record<string, readonly [sizes: readonly number[], at: (size: number, upstream: string) => Promise<Way>]>
> = {
  parameters: [
    [1, 10, 100, 1000],
    (size, upstream) => withBody(upstream, many(size, (at) => `p${at}=1`).join('&')),
  ],
  'bytes of the form': [
    [1024, 8192, 65_536],
    (size, upstream) => withBody(upstream, `note=${'x'.repeat(size - 5)}`),
  ],
  logins: [
    [1, 100, 10_000],
    async (logins, upstream) => ({
      ...(await startCountersign(upstream, 'HMAC', {}, logins)),
      load: { logins },
    }),
  ],
  'connections, 500 requests/s': [
    [50, 500, 5000],
    async (connections, upstream) => ({
      ...(await startCountersign(upstream, 'HMAC')),
      load: { connections, rate: 500 },
    }),
  ],
  callers: [
    [1, 100, 1000],
    (size, upstream) =>
      startCountersign(upstream, 'HMAC', {
        callers: many(size, (at) => callerOf(`c${at}`, at === 0 ? token : `${at}`)),
      }),
  ],
  operations: [
    [5, 100, 1000],
    (size, upstream) => {
      const operation = { signature: 'HMAC-SHA1', loginFrom: 'path', readOnly: true } as const;
      const added = many(size - 5, (at) => [`o${at}`, { ...operation, path: `/api/o${at}/{login}` }]);
      return startCountersign(upstream, 'HMAC', { operations: Object.fromEntries(added) });
    },
  ],
  'requests before': [
    [1, 100_000, 500_000],
    async (before, upstream) => ({ ...(await startCountersign(upstream, 'HMAC')), before }),
  ],
};

async function withBody(upstream: string, body: string): Promise<Way> {
  return { ...(await startCountersign(upstream, 'HMAC')), body };
}

/** HMAC as one thing after the other grows, in a new process for each size. */
async function* growth(upstream: string): AsyncGenerator<readonly Way[]> {
  for (const [name, [sizes, at]] of Object.entries(growing)) {
    const ways: Way[] = [];
    for (const size of sizes) ways.push({ ...(await at(size, upstream)), name: `${name}: ${size}` });
    yield ways;
    for (const way of ways) await way.stop();
  }
}

/** HMAC over TLS with the gateway, directly and through egress proxies. Queries share tunnels, payments do not. */
async function* egress(_upstream: string, ends: Ends): AsyncGenerator<readonly Way[]> {
  const folder = new Folder();
  const ca = new Ca(folder.path, 'ca');
  const upstream = await startUpstream(ca.issue('gateway'));
  const [plain, secure] = [await startEgressProxy(), await startEgressProxy(ca.issue('egress-proxy'))];
  ends.push(() => folder.remove(), upstream.stop, plain.close, secure.close);
  const routes = {
    directly: {},
    'through a tunnel': { egressProxy: { url: plain.url } },
    'through a tunnel, TLS to the proxy': { egressProxy: { url: secure.url, caFile: ca.file } },
  };
  const ways: Way[] = [];
  for (const keepAlive of [true, false])
    for (const [route, fields] of Object.entries(routes)) {
      const sandbox = { baseUrl: upstream.url, product: 'gw', caFile: ca.file, keepAlive, ...fields };
      const way = await startCountersign(upstream.url, 'HMAC', { environments: { sandbox } });
      ends.push(way.stop);
      ways.push({ ...way, name: `${keepAlive ? 'shared connections' : 'a connection each'}, ${route}` });
    }
  yield ways;
}

/** RSA 2048 with the key in the secret, and with a key that does not leave a real server on this machine. */
async function* transit(upstream: string, ends: Ends): AsyncGenerator<readonly Way[]> {
  const { VAULT_BIN: program } = process.env;
  if (program === undefined) throw new Error('set VAULT_BIN to the program vault or bao');
  const { admin, close } = await startDevServer(program);
  ends.push(close);
  await admin.enable('mounts', 'transit', { type: 'transit' });
  await admin.newTransitKey('acme');
  const places = [
    ['the RSA key in the secret', 'secret', { private_key: vectorText('keys/rsa-2048-pkcs8.pem') }],
    ['the RSA key in Transit', 'transit', { transit_key: 'acme:1' }],
  ] as const;
  const ways: Way[] = [];
  for (const [name, folder, fields] of places) {
    await admin.put(`${folder}/sandbox/acme`, { control_key: controlKey, ...fields });
    const own = { mounts: { sandbox: 'transit' }, maxInFlight: 64, maxPerSecond: 100_000 };
    const auth = { method: 'token', token: rootToken } as const;
    const path = `${folder}/{environment}/{login}`;
    const keys = { source: 'vault', vault: { address: admin.address, auth, path, transit: own } } as const;
    const way = await startCountersign(upstream, 2048, { keys });
    ends.push(way.stop);
    ways.push({ ...way, name, load: { rate: 100 } });
  }
  yield ways;
}

/** How receivers of traces respond to an export. */
const receivers: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
  accepts: (response) => response.end(),
  hangs: () => {},
  'responds with 429': (response) => response.writeHead(429).end(),
  'responds with HTML': (response) => response.end('<html>'),
};

/** HMAC without traces, with some and with all, and with receivers that fail. */
async function* traces(upstream: string, ends: Ends): AsyncGenerator<readonly Way[]> {
  const ways: Way[] = [];
  const start = async (name: string, tracing?: ConfigTracing): Promise<void> => {
    const way = await startCountersign(upstream, 'HMAC', tracing === undefined ? {} : { tracing });
    ends.push(way.stop);
    ways.push({ ...way, name });
  };
  await start('no traces');
  await start('ratio 1, the receiver is down', { otlp: 'http://127.0.0.1:9', sampleRatio: 1 });
  for (const [name, respond] of Object.entries(receivers)) {
    const { port, close } = await listen(
      createServer((request, response) => request.resume().once('end', () => respond(response))),
    );
    ends.push(close);
    const otlp = `http://127.0.0.1:${port}`;
    if (name === 'accepts') await start('ratio 0.01', { otlp, sampleRatio: 0.01 });
    await start(`ratio 1, the receiver ${name}`, { otlp, sampleRatio: 1 });
  }
  yield ways;
}

interface ConfigTracing {
  readonly otlp: string;
  readonly sampleRatio: number;
}

export const variants: Readonly<Record<'growth' | 'egress' | 'transit' | 'traces', Variant>> = {
  growth,
  egress,
  transit,
  traces,
};
