import { readFileSync } from 'node:fs';
import { expect } from '@jest/globals';
import { validateConfig } from '../../../src/config/load.ts';
import type { Config } from '../../../src/config/schema.ts';
import { builtInOperations } from '../../../src/gateway/operations.ts';

export const digest = '2f77668a9dfbf8d5848b9eeb4a7145ca94c6ed9236e4a773f6dcafa5132b2f91';

/** The smallest configuration that is right. */
export const minimal = `
environments:
  sandbox: { baseUrl: "https://gateway.example", product: gw }
keys: { source: directory, directory: keys }
`;

export function check(text: string, variables: Readonly<Record<string, string>> = {}) {
  return validateConfig(text, {
    lookUp: (name) => (Object.hasOwn(variables, name) ? variables[name] : undefined),
    builtIn: builtInOperations,
  });
}

export function configOf(text: string, variables?: Readonly<Record<string, string>>): Config {
  const checked = check(text, variables);
  if ('config' in checked) return checked.config;
  throw new Error(JSON.stringify(checked.problems));
}

/** `LINE path: message` for each problem, none when the text is right. */
export function problemsOf(text: string, variables?: Readonly<Record<string, string>>): string[] {
  const checked = check(text, variables);
  if ('config' in checked) return [];
  return checked.problems.map(({ path, line, message }) => `${line} ${path}: ${message}`);
}

/** The minimal configuration with one environment of these fields. */
export function withEnvironment(fields: string): string {
  return `keys: { source: directory, directory: keys }\nenvironments:\n  sandbox: { ${fields} }`;
}

/** The minimal configuration with these keys, as a flow mapping. */
export function withKeys(keys: string): string {
  return `environments: { sandbox: { baseUrl: "https://gateway.example", product: gw } }\nkeys: ${keys}`;
}

/** Vault keys with these fields besides the address and the login, as a flow mapping. */
export function withVault(fields: string, auth = 'method: kubernetes, role: r'): string {
  const vault = `address: "https://vault.example", auth: { ${auth} }, ${fields}`;
  return withKeys(`{ source: vault, vault: { ${vault} } }`);
}

/** The rows of a table in a text, one in each line, with bars between their cells. */
export const rows = (table: TemplateStringsArray): string[][] =>
  String.raw(table)
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/ +\|\| +/));

/** @param expected a part of each problem, with `&&` between them, or `none` */
export function expectProblems(text: string, expected: string | undefined): void {
  const parts = expected === 'none' ? [] : (expected ?? '').split(' && ');
  expect(problemsOf(text)).toEqual(parts.map((part) => expect.stringContaining(part)));
}

export const exampleNames = ['embedded', 'vault', 'directory'] as const;
export const exampleVariables = {
  COUNTERSIGN_KEYS: '/tmp/keys',
  COUNTERSIGN_GATEWAY: 'http://127.0.0.1:8090',
};

export function exampleText(name: (typeof exampleNames)[number]): string {
  return readFileSync(new URL(`../../../config/${name}.yaml`, import.meta.url), 'utf8');
}
