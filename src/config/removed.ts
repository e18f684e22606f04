import type { Problem } from './problem.ts';

const nothingOfItsOwn =
  'Countersign sends nothing of its own to the gateway, and a rejected query or payment finds the accepted key by itself. Remove it';

const revoked =
  'was removed, and the certificates in it would be accepted again: put them on a revocation list of their CA (proxy.tls.clientCrlFile), or remove their callers, and then this';

/** Options that a file of an earlier version may have, and what to do about each. `*` stands for any one name or index. */
export const removedOptions: Readonly<Record<string, string>> = {
  'audit.file':
    'was removed: name a folder with audit.directory, in which each start begins a file, or none for standard output',
  'environments.*.canaryEndpoint': `was removed: ${nothingOfItsOwn}`,
  revokedCertificates: revoked,
  'callers.*.revokedCertificates': revoked,
  'proxy.maxConnectionsPerAddress':
    'was removed: whoever is not to take all connections has to be kept off by the network, see "Denial of service by volume" in docs/security-model.md. Remove it',
  'keys.rotation': `was removed, and with it canary: ${nothingOfItsOwn}`,
  'keys.vault.auth.wrappedSecretIdFile':
    'was removed: put the secret ID itself into secretIdFile, for example with an init container or a Vault Agent that unwraps it',
};

/** Says what takes the place of a removed option: to the schema it is only an unknown key. */
export function withReplacement(problem: Problem): Problem {
  const steps = problem.path.replaceAll(/\[(\d+)\]/g, '.$1').split('.');
  const message = Object.entries(removedOptions).find(([option]) => matches(option.split('.'), steps))?.[1];
  return message === undefined ? problem : { ...problem, message };
}

function matches(option: readonly string[], steps: readonly string[]): boolean {
  return (
    option.length === steps.length && option.every((name, index) => name === '*' || name === steps[index])
  );
}
