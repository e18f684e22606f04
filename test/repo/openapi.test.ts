import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { Validator } from '@seriousme/openapi-schema-validator';
import { parse } from 'yaml';
import { openApiDocument } from '../../scripts/docs/openapi.ts';
import { mergeOperations } from '../../src/gateway/operations.ts';
import { itWith } from '../support/requires.ts';
import { publishedOperations } from '../support/scenario.ts';
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

it('scripts/generate-openapi.ts prints a valid one with the operations of a file', async () => {
  const argv = ['scripts/generate-openapi.ts', 'config/operations.yaml'];
  const { stdout } = spawnSync(process.execPath, argv, { cwd: root, encoding: 'utf8' });
  expect(await new Validator().validate(stdout)).toEqual({ valid: true });
  const { paths }: { paths: object } = parse(stdout);
  expect(Object.keys(paths)).toEqual(mergeOperations([publishedOperations]).map(({ path }) => path));
});

itWith('redocly')('the linter reports neither errors nor warnings', () => {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const args = ['lint', join(root, 'docs/openapi.yaml'), '--extends=recommended', '--format=stylish'];
  const { status, stdout, stderr } = spawnSync('redocly', args, { encoding: 'utf8', env });
  const printed = stdout + stderr;
  expect([status, printed]).toEqual([0, expect.stringContaining('API description is valid')]);
  expect(printed).not.toMatch(/\bwarn/i);
});
