import type { Parts } from '../partial-parse.ts';
import { type Report, repeated, reportUnknown } from '../problem.ts';
import { canonicalUrl, isPlaintextRemote } from '../url.ts';

/**
 * Keeps environments apart: a request signed for one must not reach another. Signed requests must also be encrypted
 * in transit.
 */
export function checkEnvironments({ environments, canary, transitMounts }: Parts, report: Report): void {
  const mountPath = (name: string) => ['keys', 'vault', 'transit', 'mounts', name];
  for (const name of transitMounts.keys())
    reportUnknown(mountPath(name), name, [...environments.keys()], 'environment', report);
  // With one mount, two could sign with the keys of each other, and no policy could keep them apart.
  for (const [[name], [owner]] of repeated(transitMounts, ([, mount]) => mount))
    report(
      mountPath(name),
      `must differ from the mount of ${owner}: each environment has a separate Transit engine`,
    );
  for (const [[name], [owner]] of repeated(
    environments,
    ([, { baseUrl }]) => baseUrl && canonicalUrl(baseUrl),
  ))
    report(
      ['environments', name, 'baseUrl'],
      `is also the URL of "${owner}", so keys of one could sign for the other: use separate URLs`,
    );
  for (const [name, { baseUrl, allowInsecureHttp, hasEndpoint }] of environments) {
    if (baseUrl !== undefined && isPlaintextRemote(baseUrl) && !allowInsecureHttp)
      report(
        ['environments', name, 'baseUrl'],
        'must use https unless the host is loopback, or set allowInsecureHttp: true',
      );
    // There would silently be no canary for RSA keys.
    if (canary && !hasEndpoint)
      report(
        ['environments', name],
        'requires canaryEndpoint or endpoints, because keys.rotation.canary is true',
      );
  }
}
