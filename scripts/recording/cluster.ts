import type { KeyObject } from 'node:crypto';
import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import { Secret } from '../../src/secret.ts';
import type { Fault } from '../../src/simulator/faults.ts';
import { parameter, type VerifiedRequest } from '../../src/simulator/verified-request.ts';
import { auditIn } from '../../test/support/audit.ts';
import { tokenCredential } from '../../test/support/config.ts';
import { Folder } from '../../test/support/folder.ts';
import { type OidcServer, startOidcServer } from '../../test/support/oidc-server.ts';
import { startProcess } from '../../test/support/process.ts';
import { secureScrape, startPrometheus } from '../../test/support/prometheus-server.ts';
import { startRecordingGateway } from '../../test/support/recording-gateway.ts';
import { controlKey, startSimulator } from '../../test/support/simulator.ts';
import { Ca } from '../../test/support/stub-vault/certificates.ts';
import { roleName, VaultTestEnvironment } from '../../test/support/stub-vault/harness.ts';
import { publicKeyOf, vectorText } from '../../test/support/vectors.ts';

const tokens = { billing: 'token-of-billing', payouts: 'token-of-payouts', trial: 'token-of-trial' };
const everything = { environments: ['*'], operations: ['*'], logins: ['acme', 'beta'] };

/** Callers by token or, as `shop`, by JWT; and clients that are none. */
export type Client = keyof typeof tokens | 'shop' | 'unknown' | 'expired';

type KeyName = 'rsa-2048' | 'rsa-4096';
/** The key of `beta` does not leave Vault. */
type AcceptedKey = KeyName | 'transit';

/** How the gateway behaves at the moment. */
interface GatewayConditions {
  /** Seconds by which the gateway's clock is ahead. */
  clockAhead: number;
  /** It responds slowly, and to some of the requests with status 500. */
  failing: boolean;
}

export type RecordingCluster = Awaited<ReturnType<typeof openCluster>>;

/**
 * A gateway, a Vault, two instances of Countersign in processes of their own, and a Prometheus that scrapes them.
 *
 * @param stops receives a function to stop each of them, even if a later one fails to start
 */
export async function openCluster(stops: (() => Promise<unknown>)[]) {
  const conditions: GatewayConditions = { clockAhead: 0, failing: false };
  const gateway = await startSimulator({
    clock: () => Date.now() + conditions.clockAhead * 1000,
    fault: (operation, request) => faultOf(conditions, operation, request),
  });
  stops.push(() => gateway.close());
  const vault = await new VaultTestEnvironment({ clock: () => Date.now() }).open();
  stops.push(() => vault.close());
  const putKey = (login: string, key: KeyName) =>
    vault.admin.put(`gateway/production/${login}`, secretWith(key));
  await putKey('acme', 'rsa-2048');
  await vault.admin.enable('mounts', 'transit', { type: 'transit' });
  const publicKeys = { beta: await vault.admin.newTransitKey('beta') };
  await vault.admin.put('gateway/production/beta', { control_key: controlKey, transit_key: 'beta:1' });
  const token = await vault.admin.token({ policies: [roleName], ttl: '1h' });
  const caFile = new Ca(vault.folder.path, 'gateway-ca').file;
  const adminCa = new Ca(vault.folder.path, 'admin-ca');
  const { certFile, keyFile } = adminCa.issue('admin');
  const issuer = await startOidcServer();
  stops.push(() => issuer.close());
  const receiver = await startRecordingGateway();
  stops.push(() => receiver.close());
  receiver.respond = (response) => response.end();
  const config = {
    ...configOf({ baseUrl: gateway.url, caFile }, vault.vault.address, token),
    admin: { port: 0, tls: { certFile, keyFile } },
    tracing: { otlp: receiver.url, sampleRatio: 0.2 },
    jwtIssuers: { cluster: { issuer: issuer.url, audience: 'countersign' } },
  };
  const instances = [await startInstance(config, stops), await startInstance(config, stops)];
  const rules = globSync('deploy/prometheus/*.rules.yaml').map((file) => resolve(file));
  const prometheus = await startPrometheus(
    [
      secureScrape(
        instances.map((one) => one.adminUrl),
        adminCa.file,
      ),
    ],
    rules,
  );
  stops.push(() => prometheus.close());
  const gatewayAccepts = (login: string, ...keys: readonly AcceptedKey[]) =>
    gateway.simulator.keys.set(login, {
      controlKeys: [new Secret(controlKey)],
      publicKeys: keys.map((key) => publicKeyFor(key, publicKeys.beta)),
    });
  gatewayAccepts('beta', 'transit');
  return {
    urls: instances.map(({ url }) => `${url}/production/gw/api`),
    conditions,
    prometheus,
    /** A TLS handshake with each admin port. */
    handshake: (options: ConnectionOptions) =>
      Promise.all(instances.map(({ adminUrl }) => handshake(adminUrl, options))),
    tokenOf: (client: Client) => tokenOf(client, issuer),
    vault: vault.vault,
    putKey,
    gatewayAccepts,
  };
}

function publicKeyFor(key: AcceptedKey, inVault: KeyObject) {
  return key === 'transit' ? inVault : publicKeyOf(`${key}-public.pem`);
}

function secretWith(key: KeyName) {
  return { control_key: controlKey, private_key: vectorText(`keys/${key}-pkcs8.pem`) };
}

async function startInstance(config: object, stops: (() => Promise<unknown>)[]) {
  const folder = new Folder();
  stops.push(async () => folder.remove());
  const instance = await startProcess({ config: { ...config, audit: auditIn(folder) } });
  stops.push(() => instance.close());
  return instance;
}

/** Resolves also if it fails. */
async function handshake(url: string, options: ConnectionOptions): Promise<void> {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port: Number(port), rejectUnauthorized: false, ...options });
  socket.once('secureConnect', () => socket.end()).on('error', () => {});
  await new Promise<void>((resolve) => {
    socket.once('close', () => resolve());
  });
}

function configOf(gateway: { baseUrl: string; caFile: string }, vault: string, token: string) {
  const caller = (name: keyof typeof tokens, more: object) => ({
    name,
    credentials: [tokenCredential(tokens[name])],
    ...more,
  });
  return {
    environments: {
      production: { ...gateway, product: 'gw', endpoints: { '1235': 'acme' }, maxInFlight: 40 },
    },
    keys: {
      source: 'vault' as const,
      vault: {
        address: vault,
        auth: { method: 'token' as const, token },
        transit: { mounts: { production: 'transit' } },
      },
      cache: { ttl: '10s' },
    },
    callers: [
      caller('billing', { allow: [everything] }),
      caller('payouts', { allow: [everything] }),
      caller('trial', { mode: 'dry-run' }),
      {
        name: 'shop',
        credentials: [{ jwt: { issuer: 'cluster', subject: 'system:serviceaccount:shop:checkout' } }],
        allow: [everything],
      },
    ],
  };
}

async function tokenOf(client: Client, issuer: OidcServer): Promise<string> {
  if (client === 'unknown') return 'unknown-token';
  if (client !== 'shop' && client !== 'expired') return tokens[client];
  const exp = Math.floor(Date.now() / 1000) + (client === 'expired' ? -60 : 300);
  return issuer.sign({ sub: 'system:serviceaccount:shop:checkout', exp });
}

/** About 60 ms for a read and 180 ms for a payment, with a long tail. */
function faultOf({ failing }: GatewayConditions, operation: string, request: VerifiedRequest): Fault {
  const usual = operation === 'transfer' ? 0.18 : 0.06;
  const delaySeconds = usual * Math.exp(0.5 * (Math.random() + Math.random() + Math.random() - 1.5) * 2);
  if (parameter(request, 'client_orderid') === 'cut') return { delaySeconds, fault: 'reset' };
  if (!failing) return { delaySeconds };
  return Math.random() < 0.3 ? { delaySeconds, fault: 'status-500' } : { delaySeconds: delaySeconds * 12 };
}
