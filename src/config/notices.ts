import type { Report } from './problem.ts';
import type { Config } from './schema.ts';
import { isPlaintextRemote } from './url.ts';

/** Reports what is valid, and may yet surprise: `check` prints it, and does not fail. */
export function reportNotices(config: Config, report: Report): void {
  for (const [index, { mode }] of config.callers.entries())
    if (mode === 'dry-run')
      report(
        ['callers', index, 'mode'],
        'lets through every request, also what the grants do not allow: set enforce when the log has no more requests with the decision would-deny',
      );
  noticePlainPasswords(config, report);
}

/** TLS with the server does not protect the password for the proxy. */
function noticePlainPasswords({ environments, keys, jwtIssuers }: Config, report: Report): void {
  const vault = keys.source === 'vault' ? { vault: keys.vault } : {};
  for (const [group, servers] of Object.entries({ environments, keys: vault, jwtIssuers }))
    for (const [name, { egressProxy }] of Object.entries(servers))
      if (egressProxy?.username !== undefined && isPlaintextRemote(egressProxy.url))
        report(
          [group, name, 'egressProxy', 'url'],
          'sends the password for the proxy unencrypted: everybody on the way can read it. Use an https: URL if the proxy has one',
        );
}
