import { describe, expect, it } from '@jest/globals';
import { removedOptions, withReplacement } from '../../../src/config/removed.ts';
import { configJsonSchema, type Schema } from '../../../src/config/schema.ts';
import { minimal, problemsOf, withEnvironment } from './checking.ts';

const nothingOfItsOwn =
  'Countersign sends nothing of its own to the gateway, and a rejected query or payment finds the accepted key by itself. Remove it';

describe('a removed option is one problem, at its line, that says what takes its place:', () => {
  it.each([true, false])('keys.rotation.canary: %s', (canary) => {
    const text = `environments:
  sandbox: { baseUrl: "https://gateway.example", product: gw }
keys:
  source: directory
  directory: keys
  rotation:
    canary: ${canary}
`;
    expect(problemsOf(text)).toEqual([
      `6 keys.rotation: was removed, and with it canary: ${nothingOfItsOwn}`,
    ]);
  });

  it('environments.*.canaryEndpoint, also with a variable that is no longer set', () => {
    for (const endpoint of ['"77"', '"${ENDPOINT}"'])
      expect(
        problemsOf(
          withEnvironment(`baseUrl: "https://gateway.example", product: gw, canaryEndpoint: ${endpoint}`),
        ),
      ).toEqual([`3 environments.sandbox.canaryEndpoint: was removed: ${nothingOfItsOwn}`]);
  });

  it('revokedCertificates, for all callers and of one, also without entries', () => {
    const revoked =
      'was removed, and the certificates in it would be accepted again: put them on a revocation list of their CA (proxy.tls.clientCrlFile), or remove their callers, and then this';
    const text = `${minimal}revokedCertificates: []
callers:
  - name: billing
    credentials: [{ anonymous: true }]
    revokedCertificates: [{ publicKeySha256: ${'ab'.repeat(32)} }, "${'AB'.repeat(32)}"]
`;
    expect(problemsOf(text)).toEqual([
      `5 revokedCertificates: ${revoked}`,
      `9 callers[0].revokedCertificates: ${revoked}`,
    ]);
  });

  it('keys.vault.auth.wrappedSecretIdFile', () => {
    const text = `environments:
  sandbox: { baseUrl: "https://gateway.example", product: gw }
keys:
  source: vault
  vault:
    address: https://vault.example
    auth: { method: approle, roleId: r, secretIdFile: /s, wrappedSecretIdFile: /w }
`;
    expect(problemsOf(text)).toEqual([
      expect.stringMatching(
        /^7 keys.vault.auth.wrappedSecretIdFile: was removed: put the secret ID itself into secretIdFile, /,
      ),
    ]);
  });
});

it('any other unknown key is not one that was removed', () => {
  expect(problemsOf(`${minimal}rotation: {}\n`)).toEqual([expect.stringContaining('is not a known key')]);
  const others = ['keys', 'keys.rotation.canary', 'environments.canaryEndpoint', 'a.keys.rotation', ''];
  for (const path of others) expect(withReplacement({ path, line: 1, message: 'text' }).message).toBe('text');
});

it('each text says what happened, and then what to do', () => {
  for (const text of Object.values(removedOptions))
    expect(text).toMatch(/^was removed.*: .*(put|use|remove)/i);
});

/** Of the objects that may be at this path, the schema of each one's last step. */
function schemasAt(schema: Schema, [name = '', ...rest]: readonly string[]): unknown[] {
  const options = [schema, ...(schema.oneOf ?? [])].filter((one) => typeof one === 'object');
  return options.flatMap(({ properties, additionalProperties, items }) => {
    if ((properties ?? additionalProperties ?? items) === undefined) return [];
    const inner = name === '*' ? (additionalProperties ?? [items].flat()[0]) : properties?.[name];
    if (rest.length === 0) return [inner];
    return typeof inner === 'object' ? schemasAt(inner, rest) : [];
  });
}

it.each(Object.keys(removedOptions))('%s is no option of the schema, which has the place of it', (option) => {
  const found = schemasAt(configJsonSchema(), option.split('.'));
  expect(found.length).toBeGreaterThan(0);
  expect(found.every((schema) => schema === undefined)).toBe(true);
});
