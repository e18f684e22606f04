import type { Random } from '../support/random.ts';
import { oddNumber } from './certificates.ts';
import type { SettingOptions } from './setting.ts';
import { type Attack, slowKid } from './target.ts';
import { afterJunk, denials, names, oversizedSecret, slowBodies } from './with-credentials.ts';
import {
  adminPages,
  browsers,
  handshakes,
  heads,
  incompleteHeads,
  issuerExponent,
  pipelining,
  slowReaders,
  unknownKids,
} from './without-credentials.ts';

export interface Way {
  readonly title: string;
  /** The process that is attacked; a usual one unless given. */
  readonly setting?: (random: Random) => SettingOptions;
  readonly attack: Attack;
  /**
   * The attacker takes all of `proxy.maxConnections`, which nothing prevents (docs/security-model.md): the victim has the
   * connections that it opened before.
   */
  readonly takesConnections?: true;
  /**
   * Node has no limit for it, so the network has to keep strangers off (docs/security-model.md). Times and failures are
   * reported, not limited; memory is, and the process must not end.
   */
  readonly leftToNetwork?: true;
}

/** Those without credentials first. */
const table = {
  handshakes: {
    title: 'client certificates with long chains of huge exponents',
    setting: () => ({ tls: true, clientCertificates: true }),
    attack: handshakes,
    leftToNetwork: true,
  },
  'incomplete-heads': {
    title: 'thousands of heads that never end',
    attack: incompleteHeads,
    takesConnections: true,
  },
  'incomplete-heads-tls': {
    title: 'the same over TLS',
    setting: () => ({ tls: true }),
    attack: incompleteHeads,
    takesConnections: true,
  },
  'unknown-kids': {
    title: 'tokens with unknown keys and bytes behind them, while the issuer is slow',
    setting: () => ({ issuerDelay: 5_000 }),
    attack: unknownKids,
  },
  'issuer-exponent': {
    title: "tokens for an issuer's key with a huge exponent",
    setting: (random) => ({ issuerKeys: [slowKey(random)] }),
    attack: issuerExponent,
  },
  pipelining: { title: 'requests, halves and noise behind one another', attack: pipelining },
  heads: { title: 'texts in a head that parsers take long for', attack: heads },
  'admin-pages': {
    title: 'a loop over /metrics and the status with 1,000 logins',
    setting: () => ({ logins: 1_000 }),
    attack: adminPages,
  },
  'slow-readers': {
    title: 'pages of the admin port that are not read',
    setting: () => ({ logins: 1_000 }),
    attack: slowReaders,
  },
  browsers: {
    title: 'what web pages make browsers send',
    setting: () => ({ anonymous: true }),
    attack: browsers,
  },
  names: { title: 'forms with names and values that take long to look at', attack: names },
  'slow-bodies': {
    title: 'forms that never end, by a caller with maxInFlight 2',
    attack: slowBodies,
    takesConnections: true,
  },
  denials: {
    title: 'denied requests, each of which may be recorded in the audit trail',
    setting: () => ({ auditTail: Buffer.alloc(0) }),
    attack: denials,
  },
  'oversized-secret': {
    title: "one login's secret above 1 MiB in Vault",
    setting: () => ({ logins: 1_000, vaultSecret: 1_500_000 }),
    attack: oversizedSecret,
  },
  'junk-at-start': {
    title: 'more than 64 KiB of zeros or junk at the end of the newest audit file',
    setting: (random) => ({ auditTail: junk(random) }),
    attack: afterJunk,
  },
} as const satisfies Record<string, Way>;

export type WayName = keyof typeof table;
export const ways: Readonly<Record<WayName, Way>> = table;
export const wayNames = Object.keys(table).filter((name): name is WayName => name in table);

/** A public key of 3072 bits (RFC 7518 section 6.3.1) with an exponent of the same size. */
function slowKey(random: Random): object {
  const [n, e] = [0xff, 0x7f].map((first) => oddNumber(random, 384, first).toString('base64url'));
  return { kty: 'RSA', kid: slowKid, alg: 'RS256', use: 'sig', n, e };
}

/** What a power failure or a person leaves at the end of a file. */
function junk(random: Random): Buffer {
  const bytes = random.int(70_000, 500_000);
  const one = Buffer.from(Array.from({ length: 1_000 }, () => random.int(0, 255)));
  return random.pick([Buffer.alloc(bytes), Buffer.alloc(bytes, one), Buffer.alloc(bytes, '{"audit":"')]);
}
