import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Folder } from './folder.ts';
import { Ca, type Issued } from './stub-vault/certificates.ts';
import { approleMount, roleName } from './stub-vault/harness.ts';
import type { KeyServer, TestCluster } from './test-cluster.ts';
import { until } from './until.ts';

/** A server that speaks Vault's protocol over TLS and can fail on demand: the stub or a real one. */
export interface FailingVault extends KeyServer {
  /** At once, with all its connections. */
  kill(): Promise<void>;
  /** Resolves when it serves again. */
  restart(): Promise<void>;
  /** Accepts requests and does not respond. */
  hang(): Promise<void>;
  resume(): Promise<void>;
  seal(): Promise<void>;
  unseal(): Promise<void>;
  /** Rejects requests for secrets, or for another mount, with 429. */
  limitRate(mount?: string): Promise<void>;
  liftRateLimit(): Promise<void>;
  /** Lets the service account of this token log in as the role of Countersign. */
  acceptServiceAccount(jwt: string): Promise<void>;
  /** Stops or starts the API server that verifies such tokens. */
  kubernetesApi(isUp: boolean): Promise<void>;
  /** Presents another certificate from now on, and closes all connections. */
  show(certificate: Issued): Promise<void>;
  /** Number of reads of secrets since its last start; `undefined` if unknown. */
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

  /** Makes Countersign trust the CA, once it reloads the file. */
  install(): void {
    copyFileSync(this.ca.file, this.caFile);
  }

  replaceCa(): void {
    this.#issued += 1;
    this.ca = new Ca(this.#folder.path, `ca-of-${this.#issued}`);
  }

  issue(): Issued {
    this.#issued += 1;
    return this.ca.issue(`vault-${this.#issued}`);
  }
}

/** What an outage affects. */
export interface OutageContext {
  readonly cluster: TestCluster;
  readonly vault: FailingVault;
  readonly trust: VaultTrust;
}

/** What Countersign says while an outage lasts. */
export interface Saying {
  readonly state: 'up' | 'denied' | 'down';
  /** The alerts whose condition holds. */
  readonly alerts: readonly string[];
  /** Messages of the log lines at the beginning and at the end; none if there is no such line. */
  readonly lines: readonly [string, string] | undefined;
  /** How many lines of each message a process writes at most; exactly one unless given. */
  readonly mostLines?: readonly [number, number];
  /** Responses for a login without cached keys; no others. */
  readonly uncached: readonly string[];
}

const saysUp: Saying = { state: 'up', alerts: [], lines: undefined, uncached: ['200'] };
const saysDown: Saying = {
  state: 'down',
  alerts: ['CountersignKeySourceDown'],
  lines: ['key source unavailable', 'key source available again'],
  uncached: ['503 key-source-unavailable'],
};
const saysDenied: Saying = {
  state: 'denied',
  alerts: ['CountersignKeySourceDown'],
  lines: ['key source denies reading keys', 'key source permits reading keys again'],
  uncached: ['503 key-source-unavailable'],
};
const saysNotFound: Saying = {
  state: 'up',
  alerts: ['CountersignLoginsNotFound'],
  lines: [
    'login not found in the key source; its cached keys are used',
    'no login with cached keys is missing in the key source any more',
  ],
  // One for the first login, and whenever their number has doubled.
  mostLines: [4, 1],
  uncached: ['502 key-missing'],
};

export interface Outage {
  readonly name: string;
  /** In the log line at the beginning, for an outage of the source as a whole. */
  readonly cause?: RegExp;
  readonly says: Saying;
  /** Resolves when Vault is unavailable. */
  begin(place: OutageContext): Promise<unknown>;
  /** Resolves when Vault is available again, or Countersign's credentials are fixed. */
  end(place: OutageContext): Promise<unknown>;
}

const longLived = { token_policies: [roleName], token_ttl: 3600, token_max_ttl: 0 };
const policyPath = `sys/policies/acl/${roleName}`;
const credentialsRejected = /rejected the credentials \(HTTP 400, approle\)/;

const unknownCa =
  /TLS: (UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|SELF_SIGNED_CERT_IN_CHAIN)/;

/** For processes that log in by AppRole. */
export const outages: readonly Outage[] = [
  {
    name: 'killed',
    says: saysDown,
    // A read that was in flight is reset.
    cause: /cannot be reached \((connection refused: ECONNREFUSED|ECONNRESET)\)/,
    begin: ({ vault }) => vault.kill(),
    end: ({ vault }) => vault.restart(),
  },
  {
    name: 'hung',
    says: saysDown,
    cause: /did not respond in time/,
    begin: ({ vault }) => vault.hang(),
    end: ({ vault }) => vault.resume(),
  },
  {
    name: 'sealed',
    says: saysDown,
    cause: /is sealed \(HTTP 503\)/,
    begin: ({ vault }) => vault.seal(),
    end: ({ vault }) => vault.unseal(),
  },
  {
    name: 'rate-limited',
    says: saysDown,
    cause: /rate-limited by Vault \(HTTP 429\)/,
    begin: ({ vault }) => vault.limitRate(),
    end: ({ vault }) => vault.liftRateLimit(),
  },
  {
    name: 'token revoked',
    says: saysUp,
    begin: ({ cluster }) => cluster.admin.revokeAll(approleMount),
    end: async () => {},
  },
  {
    name: 'secret ID used up',
    // A real server may respond with 500 to logins at the same time, which is another cause.
    says: { ...saysDown, mostLines: [2, 1] },
    cause: credentialsRejected,
    async begin({ cluster }) {
      // Each process logs in once more and gets a short-lived token.
      const short = { ...longLived, token_ttl: 3, token_max_ttl: 3 };
      await cluster.admin.role(approleMount, roleName, short);
      await cluster.newSecretId(roleName, { num_uses: cluster.processes.length });
      await cluster.admin.revokeAll(approleMount);
      // Up to a second until the revocation is noticed, plus the token's TTL.
      await wait(5000);
    },
    async end({ cluster }) {
      await cluster.admin.role(approleMount, roleName, longLived);
      await cluster.newSecretId();
    },
  },
  {
    name: 'certificate of a new CA, without a signal',
    says: saysDown,
    cause: unknownCa,
    begin({ vault, trust }) {
      trust.replaceCa();
      return vault.show(trust.issue());
    },
    end: async ({ trust }) => trust.install(),
  },
  {
    name: 'mount re-created',
    says: saysNotFound,
    async begin({ cluster: { admin } }) {
      await admin.request('DELETE', 'sys/mounts/secret');
      await admin.enable('mounts', 'secret', { type: 'kv', options: { version: '2' } });
      await until(async () => (await admin.send('GET', 'secret/data/any')).status === 404, 'it is mounted');
    },
    end: ({ cluster }) => cluster.putAllInVault(),
  },
  {
    name: 'policy removed',
    says: saysDenied,
    begin: ({ cluster }) => cluster.admin.request('DELETE', policyPath),
    end: ({ cluster }) => cluster.writePolicy(),
  },
  {
    name: 'auth mount removed',
    cause: /rejected the credentials \(HTTP 40[03], approle\)/,
    says: saysDown,
    begin: ({ cluster }) => cluster.admin.request('DELETE', `sys/auth/${approleMount}`),
    end: ({ cluster }) => cluster.enableAppRole(longLived),
  },
];

/** For processes that log in with the service account of their pod. */
export const kubernetesApiAway: Outage = {
  name: 'API server of Kubernetes away',
  cause: /rejected the credentials \(HTTP 403, kubernetes\)/,
  says: saysDown,
  async begin({ cluster, vault }) {
    await vault.kubernetesApi(false);
    await cluster.admin.revokeAll('kubernetes');
  },
  end: ({ vault }) => vault.kubernetesApi(true),
};

/** For processes whose token is in a file. */
export const revokedTokenOfAFile: Outage = {
  name: 'token of a file revoked',
  says: saysDown,
  cause: /rejected the credentials \(HTTP 403, token\)/,
  begin: ({ cluster }) => cluster.revokeToken(),
  end: ({ cluster }) => cluster.tokenFile(),
};
