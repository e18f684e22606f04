import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { statusSchemaFile } from '../../scripts/docs/status-schema.ts';
import { sampleStatus } from '../support/sample-status.ts';
import { root } from '../support/sources.ts';

describe('docs/status.schema.json', () => {
  const text = readFileSync(join(root, 'docs/status.schema.json'), 'utf8');
  const ajv = new Ajv2020();
  addFormats.default(ajv);
  const validate = ajv.compile(JSON.parse(text));

  it('is current (npm run generate)', () => {
    expect(statusSchemaFile()).toBe(text);
  });

  it('accepts a status', () => {
    expect([validate(sampleStatus), validate.errors]).toEqual([true, null]);
  });

  it.each([
    ['another field', { more: 1 }],
    ['a time that is none', { at: 'yesterday' }],
    ['a missing section', { health: undefined }],
  ])('rejects %s', (_what, change) => {
    expect(validate(JSON.parse(JSON.stringify({ ...sampleStatus, ...change })))).toBe(false);
  });
});
