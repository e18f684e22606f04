import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { Validator } from '@seriousme/openapi-schema-validator';
import { openApiDocument } from '../../scripts/docs/openapi.ts';
import { root } from '../support/sources.ts';

const text = readFileSync(join(root, 'docs/openapi.yaml'), 'utf8');

it('docs/openapi.yaml is current (npm run generate)', () => {
  expect(openApiDocument()).toBe(text);
});

it('docs/openapi.yaml is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  expect(await validator.validate(text)).toEqual({ valid: true });
  expect(validator.version).toBe('3.1');
});

it('the validator finds a mistake', async () => {
  const wrong = text.replace('in: path', 'in: somewhere');
  expect(await new Validator().validate(wrong)).toMatchObject({ valid: false });
});
