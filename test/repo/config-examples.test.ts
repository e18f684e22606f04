import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { validateConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';

const folder = new URL('../../config/', import.meta.url);
const firstLine = '# yaml-language-server: $schema=./schema.json';
const variables: Readonly<Record<string, string>> = {
  COUNTERSIGN_KEYS: '/tmp/keys',
  COUNTERSIGN_GATEWAY: 'http://127.0.0.1:8090',
  BILLING_TOKEN_SHA256: '2f77668a9dfbf8d5848b9eeb4a7145ca94c6ed9236e4a773f6dcafa5132b2f91',
};
const examples = readdirSync(folder).filter((name) => textOf(name).startsWith(firstLine));

describe('the example configurations', () => {
  it('are all tested', () => {
    expect(examples.toSorted()).toEqual(['directory.yaml', 'embedded.yaml', 'vault.yaml']);
  });

  it.each(examples)('%s is valid', (name) => {
    expect(checked(name)).toHaveProperty('config');
  });
});

function checked(name: string) {
  return validateConfig(textOf(name), {
    lookUp: (variable) => variables[variable],
    builtIn: builtInOperations,
  });
}

function textOf(name: string): string {
  return readFileSync(new URL(name, folder), 'utf8');
}
