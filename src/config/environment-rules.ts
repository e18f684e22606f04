import type { Parts } from './parts.ts';
import type { Finding } from './problem.ts';
import { samePlace } from './web-address.ts';

/** The fence between environments: a request signed for one must not arrive at another. */
export function environmentFindings({ environments }: Parts): Finding[] {
  const owners = new Map<string, string>();
  return [...environments].flatMap(([name, { baseUrl }]) => {
    if (baseUrl === undefined) return [];
    const place = samePlace(baseUrl);
    const owner = owners.get(place);
    owners.set(place, owner ?? name);
    return owner === undefined ? [] : [{ path: ['environments', name, 'baseUrl'], message: shared(owner) }];
  });
}

function shared(owner: string): string {
  return `is the address of "${owner}" too, so keys of one could sign for the other: give each its own`;
}
