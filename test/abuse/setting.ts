import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { auditIn, trailLines } from '../support/audit.ts';
import { type ConfigInput, configFor, everything, tokenCredential } from '../support/config.ts';
import { Folder } from '../support/folder.ts';
import { jwtCaller } from '../support/jwt.ts';
import { listen } from '../support/listening.ts';
import { startOidcServer } from '../support/oidc-server.ts';
import { type CountersignProcess, listening, spawnServe } from '../support/process.ts';
import { testKeys } from '../support/service.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { oversizedLogin, type Target } from './target.ts';

/** What is special about the attacked process. */
export interface SettingOptions {
  readonly tls?: boolean;
  /** With TLS: clients may present certificates. */
  readonly clientCertificates?: boolean;
  /** One unless given. */
  readonly logins?: number;
  /** The keys are in Vault, and one login's secret is this long. */
  readonly vaultSecret?: number;
  /** An audit trail that is required; the file of an earlier start ends with these bytes after its last record. */
  readonly auditTail?: Buffer;
  /** How many milliseconds the issuer takes for its keys after the first time. */
  readonly issuerDelay?: number;
  /** Published by the issuer besides its own. */
  readonly issuerKeys?: readonly object[];
  /** Requests without credentials are allowed: the victim and browsers send such. */
  readonly anonymous?: boolean;
}

/** A process under attack, with what it needs. */
export interface Setting {
  readonly target: Target;
  readonly process: CountersignProcess;
  /** What the loop monitor writes. */
  readonly loopFile: string;
  /** The audit trail, if there is one. */
  readonly auditDirectory: string | undefined;
  /** Whether each login is used before the attack; not where reads of new logins are attacked. */
  readonly loginsUsed: boolean;
  readonly close: () => Promise<void>;
}

const monitor = fileURLToPath(new URL('loop-monitor.ts', import.meta.url));

/** @param program `src/main.ts` of another version. @throws Error if the process does not start */
export async function startSetting(options: SettingOptions, program: string | undefined): Promise<Setting> {
  const { logins = 1, anonymous = false } = options;
  const folder = new Folder();
  const ends: (() => unknown)[] = [() => folder.remove()];
  const close = async (): Promise<void> => {
    for (const end of ends.splice(0).toReversed()) await end();
  };
  try {
    const ca = options.tls === true ? new Ca(folder.path, 'ca') : undefined;
    const gateway = await startGateway();
    ends.push(gateway.close);
    const issuer = await startIssuer(options);
    ends.push(issuer.close);
    const names = Array.from({ length: logins }, (_, index) => `login-${index}`);
    const keys = await startVault(names, options, ends);
    const audit = options.auditTail === undefined ? undefined : writeAudit(folder, options.auditTail);
    const loopFile = folder.file('loop', '');
    const { proxy, ...more } = configuration(issuer.url, anonymous);
    const file = configFor(
      gateway.url,
      {
        ...more,
        ...(keys === undefined ? {} : { keys }),
        ...(audit === undefined ? {} : { audit: { ...audit, required: true } }),
      },
      { endpoints: Object.fromEntries(names.map((login, index) => [String(1000 + index), login])) },
    );
    const served = spawnServe({
      // No more than this: an older version may not know it.
      file: { ...file, proxy: { ...proxy, ...(ca === undefined ? {} : { tls: tlsOf(ca, options) }) } },
      keys: Object.fromEntries(names.map((login) => [login, testKeys])),
      env: { ABUSE_LOOP_FILE: loopFile },
      nodeOptions: ['--import', monitor],
      ...(program === undefined ? {} : { program }),
    });
    ends.push(served.close);
    const process = await listening(served);
    const { url, adminUrl } = process;
    return {
      target: { url, adminUrl, ca: ca?.cert.toString(), issuer: issuer.url, logins, anonymous },
      process,
      loopFile,
      auditDirectory: audit?.directory,
      loginsUsed: logins > 1 && keys === undefined,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function configuration(issuer: string, anonymous: boolean): Partial<ConfigInput> {
  const other = { environments: ['sandbox'], operations: ['manager-balance'], logins: ['another'] };
  const open = { name: 'open', credentials: [{ anonymous: true as const }], allow: [everything] };
  return {
    proxy: { port: 0, timeouts: { shutdownDelay: '0s' } },
    jwtIssuers: { idp: { issuer, audience: 'countersign' } },
    callers: [
      { name: 'victim', credentials: [tokenCredential('victim')], allow: [everything] },
      { name: 'greedy', credentials: [tokenCredential('greedy')], allow: [everything], maxInFlight: 2 },
      { name: 'stranger', credentials: [tokenCredential('stranger')], allow: [other] },
      jwtCaller('billing', { subject: 'billing' }),
      ...(anonymous ? [open] : []),
    ],
  };
}

function tlsOf(ca: Ca, { clientCertificates = false }: SettingOptions) {
  const { certFile, keyFile } = ca.issue('proxy');
  return { certFile, keyFile, ...(clientCertificates ? { clientCaFile: ca.file } : {}) };
}

/** Accepts whatever it receives, and keeps nothing of it. */
async function startGateway(): Promise<{ url: string; close: () => Promise<void> }> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => response.end('OK'));
  });
  const { port, close } = await listen(server);
  return { url: `http://127.0.0.1:${port}`, close };
}

async function startIssuer({ issuerDelay = 0, issuerKeys = [] }: SettingOptions) {
  const issuer = await startOidcServer();
  issuer.published = { keys: [...issuer.keys.map(({ jwk }) => jwk), ...issuerKeys] };
  const { respond } = issuer;
  issuer.respond = (request, response) => {
    const delay = issuer.fetches() > 1 ? issuerDelay : 0;
    setTimeout(() => respond(request, response), delay);
  };
  return issuer;
}

async function startVault(
  logins: readonly string[],
  { vaultSecret }: SettingOptions,
  ends: (() => unknown)[],
): Promise<ConfigInput['keys'] | undefined> {
  if (vaultSecret === undefined) return undefined;
  const vault = new StubVault();
  const admin = new VaultAdmin(await vault.listen(), rootToken);
  ends.push(() => vault.close());
  const write = (login: string, data: object) =>
    admin.request('POST', `secret/data/gateway/sandbox/${login}`, { data });
  const { controlKey, privateKey } = testKeys;
  for (const login of logins) await write(login, { control_key: controlKey, private_key: privateKey });
  await write(oversizedLogin, { control_key: 'x'.repeat(vaultSecret) });
  return vaultKeys(vault.address);
}

function writeAudit(folder: Folder, tail: Buffer): ReturnType<typeof auditIn> {
  const audit = auditIn(folder);
  const file = join(audit.directory, `20260101T000000.000Z-${hostname()}-0001.jsonl`);
  writeFileSync(file, Buffer.concat([Buffer.from(trailLines(3).join('')), tail]));
  return audit;
}
