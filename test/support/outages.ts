import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { waitUntil } from './load.ts';
import { Ca, type Issued } from './stub-vault/certificates.ts';
import { approleMount, type Folder, roleName } from './stub-vault/harness.ts';
import type { KeyServer, TestCluster } from './test-cluster.ts';

/** A server that speaks Vault's protocol over TLS and can be made to fail: the stub or a real one. */
export interface FailingVault extends KeyServer {
  /** At once, with all its connections. */
  kill(): Promise<void>;
  /** Resolves when it serves again. */
  restart(): Promise<void>;
  /** Takes requests and answers none. */
  hang(): Promise<void>;
  resume(): Promise<void>;
  seal(): Promise<void>;
  unseal(): Promise<void>;
  /** Rejects reads of secrets with status 429. @param retryAfter whether it says when to try again */
  limitRate(retryAfter: boolean): Promise<void>;
  liftRateLimit(): Promise<void>;
  /** Shows another certificate from now on, and closes all connections. */
  show(certificate: Issued): Promise<void>;
  /** How often a secret was read since its last start; `undefined` while it cannot say. */
  reads(): Promise<number | undefined>;
  close(): Promise<void>;
}

/** The CA of Vault's certificate, and the file in which Countersign finds it. */
export class VaultTrust {
  readonly caFile: string;
  readonly #folder: Folder;
  #issued = 0;
  ca: Ca;

  constructor(folder: Folder) {
    this.#folder = folder;
    this.caFile = join(folder.path, 'vault-ca.crt');
    this.ca = new Ca(folder.path, 'ca-1');
    this.install();
  }

  /** Makes the CA the one that Countersign trusts, once it looks at the file. */
  install(): void {
    copyFileSync(this.ca.file, this.caFile);
  }

  replaceCa(): void {
    this.#issued += 1;
    this.ca = new Ca(this.#folder.path, `ca-of-${this.#issued}`);
  }

  /** @param seconds from now on; negative where it has ended. */
  issue(seconds = 86_400): Issued {
    this.#issued += 1;
    const until = Date.now() + seconds * 1000;
    return this.ca.issue(`vault-${this.#issued}`, { from: until - 90_000_000, until });
  }
}

/** What an outage acts upon. */
export interface OutageContext {
  readonly site: TestCluster;
  readonly vault: FailingVault;
  readonly trust: VaultTrust;
}

export interface Outage {
  readonly name: string;
  /** In the log line of the beginning; absent where Countersign gets over it without an outage. */
  readonly cause?: RegExp;
  /** Resolves when Vault is away. */
  begin(place: OutageContext): Promise<unknown>;
  /** Resolves when Vault serves well again, or what Countersign needs for it is in place. */
  end(place: OutageContext): Promise<unknown>;
}

const longLived = { token_policies: [roleName], token_ttl: 3600, token_max_ttl: 0 };
const refused = /rejected the credentials \(HTTP 400, approle\)/;

/** For processes that log in by AppRole. */
export const outages: readonly Outage[] = [
  {
    name: 'killed',
    // A read that was in flight is reset.
    cause: /cannot be reached \((connection refused: ECONNREFUSED|ECONNRESET)\)/,
    begin: ({ vault }) => vault.kill(),
    end: ({ vault }) => vault.restart(),
  },
  {
    name: 'hung',
    cause: /did not respond in time/,
    begin: ({ vault }) => vault.hang(),
    end: ({ vault }) => vault.resume(),
  },
  {
    name: 'sealed',
    cause: /is sealed \(HTTP 503\)/,
    begin: ({ vault }) => vault.seal(),
    end: ({ vault }) => vault.unseal(),
  },
  {
    name: 'rate-limited',
    cause: /rate-limited by Vault \(HTTP 429\)/,
    begin: ({ vault }) => vault.limitRate(false),
    end: ({ vault }) => vault.liftRateLimit(),
  },
  {
    name: 'rate-limited, Retry-After',
    cause: /rate-limited by Vault \(HTTP 429\)/,
    begin: ({ vault }) => vault.limitRate(true),
    end: ({ vault }) => vault.liftRateLimit(),
  },
  {
    name: 'token revoked',
    begin: ({ site }) => site.admin.revokeAll(approleMount),
    end: async () => {},
  },
  {
    name: 'secret id used up',
    cause: refused,
    async begin({ site }) {
      // Each process logs in once more, with a token that ends soon.
      const short = { ...longLived, token_ttl: 3, token_max_ttl: 3 };
      await site.admin.role(approleMount, roleName, short);
      await site.newSecretId(roleName, { num_uses: site.processes.length });
      await site.admin.revokeAll(approleMount);
      // Up to a second until the revocation is noticed, then the life of the token.
      await wait(5000);
    },
    async end({ site }) {
      await site.admin.role(approleMount, roleName, longLived);
      await site.newSecretId();
    },
  },
  {
    name: 'secret id expired',
    cause: refused,
    async begin({ site }) {
      const role_id = await site.admin.role(approleMount, roleName, longLived);
      const secret_id = readFileSync(await site.newSecretId(roleName, { ttl: 1 }), 'utf8');
      await wait(1100);
      // OpenBao accepts one that has expired until it has tidied up, which it does once a minute.
      await site.admin.send('POST', `auth/${approleMount}/tidy/secret-id`);
      const logIn = () => site.admin.send('POST', `auth/${approleMount}/login`, { role_id, secret_id });
      await waitUntil(async () => (await logIn()).status === 400, 'the secret id has expired');
      await site.admin.revokeAll(approleMount);
    },
    end: ({ site }) => site.newSecretId(),
  },
  {
    name: 'certificate of a new CA',
    cause:
      /TLS: (UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|SELF_SIGNED_CERT_IN_CHAIN)/,
    begin({ vault, trust }) {
      trust.replaceCa();
      return vault.show(trust.issue());
    },
    async end({ site, trust }) {
      trust.install();
      for (const one of site.processes) one.reload();
    },
  },
  {
    name: 'certificate expired',
    cause: /TLS: CERT_HAS_EXPIRED/,
    begin: ({ vault, trust }) => vault.show(trust.issue(-60)),
    end: ({ vault, trust }) => vault.show(trust.issue()),
  },
];

/** For processes whose token is in a file. */
export const revokedTokenOfAFile: Outage = {
  name: 'token of a file revoked',
  cause: /rejected the credentials \(HTTP 403, token\)/,
  begin: ({ site }) => site.revokeToken(),
  end: ({ site }) => site.tokenFile(),
};
