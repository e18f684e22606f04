import type { Parts } from '../partial-parse.ts';
import type { Finding } from '../problem.ts';
import { canonicalUrl, isPlaintextRemote } from '../url.ts';

/**
 * The fence between environments: a request signed for one must not arrive at another. And what is signed must
 * not be read on the way.
 */
export function environmentFindings({ environments, canary }: Parts): Finding[] {
  return [
    ...sharedAddresses(environments),
    ...plainAddresses(environments),
    ...(canary ? missingEndpoints(environments) : []),
  ];
}

/** Without an endpoint there would be no canary for RSA keys, and no sign of it. */
function missingEndpoints(environments: Parts['environments']): Finding[] {
  return [...environments]
    .filter(([, { hasEndpoint }]) => !hasEndpoint)
    .map(([name]) => ({
      path: ['environments', name],
      message: 'needs canaryEndpoint or endpoints, because keys.rotation.canary is true',
    }));
}

function sharedAddresses(environments: Parts['environments']): Finding[] {
  const owners = new Map<string, string>();
  return [...environments].flatMap(([name, { baseUrl }]) => {
    if (baseUrl === undefined) return [];
    const place = canonicalUrl(baseUrl);
    const owner = owners.get(place);
    owners.set(place, owner ?? name);
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
      message: 'must be https: beyond this machine, or set allowInsecureHttp: true beside it',
    }));
}

function shared(owner: string): string {
  return `is the address of "${owner}" too, so keys of one could sign for the other: give each its own`;
}
