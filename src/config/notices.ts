import type { Path, Report } from './problem.ts';
import type { Config, VaultConfig } from './schema.ts';
import { canonicalUrl, isPlaintextRemote } from './url.ts';

/**
 * Reports what is valid, and may yet surprise: `check` prints it, and does not fail.
 *
 * @param fromVariables the values that contain a `${NAME}`
 */
export function reportNotices(config: Config, fromVariables: readonly Path[], report: Report): void {
  for (const path of fromVariables.filter((one) => one.at(-1) === 'tokenSha256'))
    report(
      path,
      'comes from an environment variable, which a reload does not read again: a token that you replace is accepted until a restart. Write the hash here, which is no secret',
    );
  noticeCallers(config, report);
  noticeBaseUrls(config, report);
  noticeTimeouts(config, report);
  noticePlainPasswords(config, report);
  noticeClaims(config, report);
}

/** A replica knows nothing of the claims of another one. */
function noticeClaims({ payments }: Config, report: Report): void {
  if (payments.once?.store !== 'memory') return;
  report(
    ['payments', 'once', 'store'],
    'claims order IDs in each instance alone, until it ends, and 100,000 of them: with a second instance, or after a restart, a payment may be sent twice. Name a Redis or Valkey that all instances share',
  );
}

function noticeCallers({ callers }: Config, report: Report): void {
  for (const [index, { mode, allow }] of callers.entries())
    if (mode === 'dry-run')
      report(
        ['callers', index, 'mode'],
        'lets through every request, also what the grants do not allow: set enforce when the log has no more requests with the decision would-deny',
      );
    else if (allow.length === 0)
      report(
        ['callers', index],
        'has no grants, so all its requests get 403: say in allow what it may do, or remove it',
      );
}

/** May be meant: the gateway may be behind a path of this name. */
function noticeBaseUrls({ environments }: Config, report: Report): void {
  for (const [name, { baseUrl, product }] of Object.entries(environments)) {
    const segments = canonicalUrl(baseUrl).split('/');
    const at = segments.lastIndexOf(product);
    const next = segments[at + 1];
    if (at === -1 || (next !== undefined && next !== 'api')) continue;
    report(
      ['environments', name, 'baseUrl'],
      'already contains the product, which is added to it: requests go to a path with the product twice. Remove it from baseUrl, unless the gateway expects that',
    );
  }
}

function noticeTimeouts({ proxy, environments }: Config, report: Report): void {
  const late = Object.entries(environments).filter(
    ([, { timeouts }]) => timeouts.request > proxy.timeouts.shutdown,
  );
  const [first] = late;
  if (first === undefined) return;
  report(
    ['proxy', 'timeouts', 'shutdown'],
    `is shorter than timeouts.request of ${late.map(([name]) => name).join(', ')}: a shutdown can cut off requests, and the outcome of a payment is unknown then`,
  );
}

/** TLS with the server does not protect the password for the proxy. */
function noticePlainPasswords({ environments, keys, jwtIssuers, tracing }: Config, report: Report): void {
  const vault = keys.source === 'vault' ? { vault: keys.vault } : {};
  const noticeServers = (path: Path, servers: Readonly<Record<string, Pick<VaultConfig, 'egressProxy'>>>) => {
    for (const [name, { egressProxy }] of Object.entries(servers))
      if (egressProxy?.username !== undefined && isPlaintextRemote(egressProxy.url))
        report(
          [...path, name, 'egressProxy', 'url'],
          'sends the password for the proxy unencrypted: everybody on the way can read it. Use an https: URL if the proxy has one',
        );
  };
  noticeServers([], tracing === undefined ? {} : { tracing });
  for (const [group, servers] of Object.entries({ environments, keys: vault, jwtIssuers }))
    noticeServers([group], servers);
}
