import type { Parts } from '../partial-parse.ts';
import type { Finding } from '../problem.ts';
import { canonicalUrl, isPlaintextRemote } from '../url.ts';

/**
 * Keeps environments apart: a request signed for one must not reach another. Signed requests must also be encrypted
 * in transit.
 */
export function environmentFindings({ environments, canary }: Parts): Finding[] {
  return [
    ...sharedAddresses(environments),
    ...plainAddresses(environments),
    ...(canary ? missingEndpoints(environments) : []),
  ];
}

/** Without an endpoint there would silently be no canary for RSA keys. */
function missingEndpoints(environments: Parts['environments']): Finding[] {
  return [...environments]
    .filter(([, { hasEndpoint }]) => !hasEndpoint)
    .map(([name]) => ({
      path: ['environments', name],
      message: 'requires canaryEndpoint or endpoints, because keys.rotation.canary is true',
    }));
}

function sharedAddresses(environments: Parts['environments']): Finding[] {
  const owners = new Map<string, string>();
  return [...environments].flatMap(([name, { baseUrl }]) => {
    if (baseUrl === undefined) return [];
    const url = canonicalUrl(baseUrl);
    const owner = owners.get(url);
    owners.set(url, owner ?? name);
    return owner === undefined ? [] : [{ path: ['environments', name, 'baseUrl'], message: shared(owner) }];
  });
}

function plainAddresses(environments: Parts['environments']): Finding[] {
  return [...environments]
    .filter(
      ([, { baseUrl, allowInsecureHttp }]) =>
        baseUrl !== undefined && isPlaintextRemote(baseUrl) && !allowInsecureHttp,
    )
    .map(([name]) => ({
      path: ['environments', name, 'baseUrl'],
      message: 'must use https unless the host is loopback, or set allowInsecureHttp: true',
    }));
}

function shared(owner: string): string {
  return `is also the URL of "${owner}", so keys of one could sign for the other: use separate URLs`;
}
